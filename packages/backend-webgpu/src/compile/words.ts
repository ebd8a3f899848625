import { storageOf } from '../wgsl/registers.ts';
import { countOf, type Values } from './values.ts';

/** The number of words of a value in memory. The last word may be used in part. */
export function wordsOf(values: Values, id: number): number {
  const { shape, dtype } = values.type(id);
  return Math.ceil((countOf(shape) * storageOf[dtype].bytes) / 4);
}
