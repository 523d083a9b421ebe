"""The sparse-to-dense maps and data accesses of the known formats as texts, and facts of some."""

from loopwright.sparse.uf import Facts, FunctionFacts, Monotone, parse_rules, parse_set

MAPS: dict[str, str] = {
    "coo": "{[n,ii,jj] -> [i,j] : row1(n)=ii && col1(n)=jj && i=ii && j=jj && 0<=n<NNZ"
    " && 0<=i<NR && 0<=j<NC}",
    "coo3": "{[n,ii,jj,kk] -> [i,j,k] : row1(n)=ii && col1(n)=jj && z1(n)=kk && i=ii && j=jj"
    " && k=kk && 0<=n<NNZ && 0<=i<NR && 0<=j<NC && 0<=k<NZ}",
    "csr": "{[ii,k,jj] -> [i,j] : i=ii && j=jj && 0<=ii<NR && rowptr(ii)<=k<rowptr(ii+1)"
    " && jj=col2(k) && 0<=k<NNZ && 0<=j<NC}",
    "csc": "{[jj,k,ii] -> [i,j] : i=ii && j=jj && 0<=jj<NC && colptr(jj)<=k<colptr(jj+1)"
    " && ii=row4(k) && 0<=k<NNZ && 0<=i<NR}",
    "dia": "{[ii,d,jj] -> [i,j] : i=ii && j=jj && 0<=ii<NR && 0<=d<ND && jj=ii+off(d) && 0<=j<NC}",
    "ell": "{[ii,w,jj] -> [i,j] : i=ii && j=jj && 0<=ii<NR && 0<=w<rlen(ii) && jj=ecol(ii,w)}",
    "bcsr": "{[ib,kb,jb,r,c,ii,jj] -> [i,j] : i=ii && j=jj && ii=BR*ib+r && jj=BC*jb+c && 0<=r<BR"
    " && 0<=c<BC && 0<=ib<NBR && browptr(ib)<=kb<browptr(ib+1) && jb=bcol(kb) && 0<=ii<NR"
    " && 0<=jj<NC}",
    "dcsr": "{[p,k,ii,jj] -> [i,j] : i=ii && j=jj && 0<=p<NZR && ii=rowidx(p)"
    " && rptr(p)<=k<rptr(p+1) && jj=col(k)}",
    "lil": "{[ii,w,jj] -> [i,j] : i=ii && j=jj && 0<=ii<NR && 0<=w<len(ii) && jj=lcol(ii,w)}",
    "csf3": "{[p,q,n,ii,jj,kk] -> [i,j,k] : i=ii && j=jj && k=kk && 0<=p<N0 && ii=idx0(p)"
    " && ptr0(p)<=q<ptr0(p+1) && jj=idx1(q) && ptr1(q)<=n<ptr1(q+1) && kk=idx2(n)}",
    "hicoo3": "{[b,n,ii,jj,kk] -> [i,j,k] : i=ii && j=jj && k=kk && 0<=b<NB && bptr(b)<=n<bptr(b+1)"
    " && ii=B*bi(b)+ei(n) && jj=B*bj(b)+ej(n) && kk=B*bk(b)+ek(n) && 0<=ei(n)<B && 0<=ej(n)<B"
    " && 0<=ek(n)<B}",
    "alto": "{[n,ii,jj,kk] -> [i,j,k] : i=ii && j=jj && k=kk && ii=ext0(alto(n))"
    " && jj=ext1(alto(n)) && kk=ext2(alto(n)) && 0<=n<NNZ}",
    "sell": "{[c,w,r,ii,jj] -> [i,j] : i=ii && j=jj && 0<=c<NCH && 0<=w<clen(c) && 0<=r<C"
    " && C*c+r<NR && ii=perm(C*c+r) && w<rlen(ii) && jj=scol(cptr(c)+C*w+r)}",
}

ACCESSES: dict[str, str] = {
    "coo": "{[n,ii,jj] -> [n]}",
    "coo3": "{[n,ii,jj,kk] -> [n]}",
    "csr": "{[ii,k,jj] -> [k]}",
    "csc": "{[jj,k,ii] -> [k]}",
    "dia": "{[ii,d,jj] -> [p] : p = ND*ii + d}",
    "ell": "{[ii,w,jj] -> [p] : p = W*ii + w}",
    "bcsr": "{[ib,kb,jb,r,c,ii,jj] -> [p] : p = BR*BC*kb + BC*r + c}",
    "dcsr": "{[p,k,ii,jj] -> [k]}",
    "lil": "{[ii,w,jj] -> [ii,w]}",
    "csf3": "{[p,q,n,ii,jj,kk] -> [n]}",
    "hicoo3": "{[b,n,ii,jj,kk] -> [n]}",
    "alto": "{[n,ii,jj,kk] -> [n]}",
    "sell": "{[c,w,r,ii,jj] -> [p] : p = cptr(c)+C*w+r}",
}

ROWPTR = FunctionFacts(
    "rowptr",
    domain=parse_set("{[x] : 0 <= x <= NR}"),
    range=parse_set("{[n] : 0 <= n <= NNZ}"),
    monotone=(Monotone(),),
)
COL2 = FunctionFacts(
    "col2", domain=parse_set("{[x] : 0 <= x < NNZ}"), range=parse_set("{[j] : 0 <= j < NC}")
)
ENDS = (*parse_rules("rowptr(0) = 0"), *parse_rules("rowptr(NR) = NNZ"))
IN_ROW = parse_rules(
    "forall i,a,b: 0 <= i < NR && rowptr(i) <= a < b < rowptr(i+1) => col2(a) < col2(b)"
)
CSR = Facts((ROWPTR, COL2), (*ENDS, *IN_ROW))
OFF = FunctionFacts(
    "off",
    domain=parse_set("{[x] : 0 <= x < ND}"),
    range=parse_set("{[x] : -NR < x < NC}"),
    monotone=(Monotone(is_strict=True),),
)
