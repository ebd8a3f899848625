// torch.linalg as one namespace. All functions compute on the host in f64, and return promises.
export { cholesky } from './linalg/cholesky.ts';
export { qr, type QR } from './linalg/qr.ts';
export { solveTriangular, type SolveTriangularOptions } from './linalg/solve-triangular.ts';
export { svd, type SVD } from './linalg/svd.ts';
