/* Shared by every kernel of the corpus. A build chooses, by -D or by a #define before this line:

   DATA               the element type, one word: double, float, int
   EXTENT_n           the constant extent that belongs to the size n; each file has a default
   SYMBOLIC_EXTENTS   arrays are as large as the size arguments say (C99); else as the constants
   LITERAL_BOUNDS     loops end at the constant extents; else at the size arguments
   SOLE_OWNERS        array arguments are `restrict`
   PADDING            elements added to every extent
*/
#ifndef CORPUS_KERNEL_H
#define CORPUS_KERNEL_H

#include <math.h>

#ifndef DATA
#define DATA double
#endif

#ifndef PADDING
#define PADDING 0
#endif

#ifdef SYMBOLIC_EXTENTS
#define EXTENT(size) size + PADDING
#else
#define EXTENT(size) EXTENT_##size + PADDING
#endif

#ifdef LITERAL_BOUNDS
#define BOUND(size) EXTENT_##size
#else
#define BOUND(size) size
#endif

#ifdef SOLE_OWNERS
#define SOLE restrict
#else
#define SOLE
#endif

/* Declarators of array arguments. */
#define VECTOR(name, a) name[SOLE EXTENT(a)]
#define MATRIX(name, a, b) name[SOLE EXTENT(a)][EXTENT(b)]
#define CUBE(name, a, b, c) name[SOLE EXTENT(a)][EXTENT(b)][EXTENT(c)]

/* Literals and functions of the element type: REAL(0.5) is 0.5f where DATA is float. */
#define PASTE(a, b) a##b
#define BY_TYPE(stem, type) PASTE(stem, type)
#define LITERAL_double(x) x
#define LITERAL_float(x) x##f
#define LITERAL_int(x) x
#define NAMED_double(function) function
#define NAMED_float(function) function##f
#define NAMED_int(function) function
#define REAL(x) BY_TYPE(LITERAL_, DATA)(x)
#define SQRT(x) BY_TYPE(NAMED_, DATA)(sqrt)(x)
#define EXP(x) BY_TYPE(NAMED_, DATA)(exp)(x)
#define POW(x, y) BY_TYPE(NAMED_, DATA)(pow)(x, y)

#define LESSER(a, b) ((a) < (b) ? (a) : (b))
#define GREATER(a, b) ((a) > (b) ? (a) : (b))

#endif
