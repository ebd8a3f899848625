import { at, NdArray } from '../../../interpreter/nd-array.ts';
import { definitions } from '../../../interpreter/definitions.ts';

// Formulas of composites, in f64. A row is along the last dim.

export type Row = readonly number[];

/** What the formulas of norms add to variances. */
export const EPS = 1e-5;

export function sigmoid(x: number): number {
  return 1 / (1 + Math.exp(-x));
}

export function normalCdf(x: number): number {
  const erf = new NdArray({ shape: [1], dtype: 'f64' });
  definitions.erf({}, erf, new NdArray(erf, Float64Array.of(x * Math.SQRT1_2)));
  return 0.5 * (1 + at(erf.values, 0));
}

/**
 * The tanh approximation of the normal distribution function. Source: Hendrycks and Gimpel 2016,
 * https://arxiv.org/abs/1606.08415.
 */
export function tanhCdf(x: number): number {
  return 0.5 * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3)));
}

export function softmax(x: Row): Row {
  return logSoftmax(x).map(Math.exp);
}

export function logSoftmax(x: Row): Row {
  const highest = Math.max(...x);
  const total = Math.log(x.reduce((sum, xi) => sum + Math.exp(xi - highest), 0));
  return x.map((xi) => xi - highest - total);
}

export function standardize(x: Row): { normalized: Row; inverse: number } {
  const average = mean(x);
  const centered = x.map((xi) => xi - average);
  const inverse = 1 / Math.sqrt(dot(centered, centered) / x.length + EPS);
  return { normalized: centered.map((c) => c * inverse), inverse };
}

export function normalizeRms(x: Row): { normalized: Row; inverse: number } {
  const inverse = 1 / Math.sqrt(dot(x, x) / x.length + EPS);
  return { normalized: x.map((xi) => xi * inverse), inverse };
}

export function mean(x: Row): number {
  return x.reduce((sum, xi) => sum + xi, 0) / x.length;
}

export function dot(a: Row, b: Row): number {
  return a.reduce((sum, ai, i) => sum + ai * at(b, i), 0);
}
