import { storageOf } from '../wgsl/registers.ts';
import { countOf, type Values } from './values.ts';

/** Words of a value in memory; the last one may be used in part. */
export function wordsOf(values: Values, id: number): number {
  const { shape, dtype } = values.type(id);
  return Math.ceil((countOf(shape) * storageOf[dtype].bytes) / 4);
}
