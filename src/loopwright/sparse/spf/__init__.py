"""SPF-IR: computations whose domains, schedules and subscripts may call index arrays.

computation          the nouns: DataSpace, Stmt, Computation    computation_parser   from text
term_exprs           terms as expressions of loop nests, and back
scan                 Computation -> LoopNest (scan_pieces, implied)
compile_computation  Computation -> callable, by LLVM
array_dependences    which instances access one element
rescheduling         reschedule, fuse, distribute, interchange, shift, tile, parallelise: if legal
eliminate            dead and redundant statements, arrays replaced by scalars
inline_computation   one computation inside another
regions              what the iterations of one loop do with each data space
chunk_loops          the outermost loop in chunks, one per thread (chunk_builder, chunk_plan)
dataflow             the graph of statements and data, as DOT and SVG
"""
