import {
  ConfigError,
  describeValue,
  formatShape,
  sameShape,
  ShapeError,
  Tensor,
} from '@shardwise/core/extend';
import { rowBytesOf, type RowType } from './row-type.ts';

/** This rank's rows of one kind of values. */
export interface OwnRows {
  /** Null if this rank has no batch, and so does not know it. */
  readonly type: RowType | null;
  readonly bytes: Uint8Array;
}

/**
 * Computes values, one batch after the other, and copies their rows to the host. Throws ConfigError for what is no list
 * of tensors, and ShapeError for tensors without rows, rows of several types, and another number of rows than `count`.
 * Shape: each [rows, ..] -> [sum of rows, ..].
 */
export async function readOwnRows(name: string, values: unknown, count: number): Promise<OwnRows> {
  const batches = tensorsIn(name, values);
  const pieces: Uint8Array[] = [];
  let type: RowType | null = null;
  let rows = 0;
  for (const batch of batches) {
    const [size, ...shape] = batch.shape;
    if (size === undefined) throw withoutRows(name);
    const { dtype } = batch;
    type ??= { dtype, shape };
    if (dtype !== type.dtype || !sameShape(shape, type.shape)) {
      throw differentRows(name, type, { dtype, shape });
    }
    const data = await batch.data();
    const rowBytes = rowBytesOf(type);
    // The run of a tensor may decide how many rows it has.
    rows += rowBytes === 0 ? size : data.byteLength / rowBytes;
    pieces.push(new Uint8Array(data.buffer, data.byteOffset, data.byteLength).slice());
  }
  if (rows !== count) throw otherCount(name, rows, count);
  const bytes = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.byteLength, 0));
  let end = 0;
  for (const piece of pieces) {
    bytes.set(piece, end);
    end += piece.byteLength;
  }
  return { type, bytes };
}

function tensorsIn(name: string, values: unknown): readonly Tensor[] {
  const list: readonly unknown[] = Array.isArray(values) ? values : [values];
  const isTensor = (each: unknown): each is Tensor => each instanceof Tensor;
  if (Array.isArray(values) && list.every(isTensor)) return list;
  const other = list.find((each) => !isTensor(each)) ?? values;
  throw new ConfigError({
    asked: `to gather ${name} for metrics`,
    found: `${describeValue(other)} where a list of tensors is expected`,
    todo: 'Give the tensors of all batches of this rank, one for each batch, and [] for a rank that has none',
  });
}

function withoutRows(name: string): ShapeError {
  return new ShapeError({
    asked: `to gather ${name} for metrics`,
    found: 'a tensor of shape []',
    todo: 'Give values of which each item has its own, of shape [rows, ..]',
  });
}

function differentRows(name: string, first: RowType, other: RowType): ShapeError {
  const [one, two] = [first, other].map(({ dtype, shape }) => `${dtype} ${formatShape(shape)}`);
  return new ShapeError({
    asked: `to gather ${name} for metrics`,
    found: `rows of ${one} in one batch, and of ${two} in another`,
    todo: 'Give values of one dtype whose shapes differ in the first dim only',
  });
}

function otherCount(name: string, rows: number, count: number): ShapeError {
  return new ShapeError(
    {
      asked: `to gather ${name} of the ${count} items that the sampler has for this rank`,
      found: `${rows} rows`,
      todo: 'Gather once after the last batch of an epoch, and give the rows of all batches, in order',
    },
    { rows, count },
  );
}
