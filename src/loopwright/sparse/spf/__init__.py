"""SPF-IR: computations whose domains, schedules and subscripts may call index arrays.

computation    the nouns: DataSpace, Stmt, Computation           bodies     terms as expressions
written        a Computation from texts
scan           Computation -> LoopNest (pieces, ranges, bounds, implied, memory)
compile        Computation -> callable, by LLVM
dependences    which instances touch one element (accesses)      legality   what may be reordered
reorder        reschedule, fuse, distribute, interchange, shift, tile, parallelise
eliminate      dead and redundant statements                     storage    arrays as scalars
inline         one computation inside another
dataflow       the graph of statements and data, as DOT and SVG (dataflow_dot, dataflow_svg)
"""
