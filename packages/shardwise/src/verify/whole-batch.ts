import { ConfigError, type DType, dtypes, elementCount } from '@shardwise/core/extend';
import { partOf, type RankRecord, type RecordedLeaf, type RecordedPass } from './records.ts';

/** The tensors of data that one rank needs to have the batches of all ranks, by the keys of their places. */
export type WholeBatch = ReadonlyMap<string, RecordedLeaf>;

/**
 * Returns what one rank has in the place of each tensor of data that differs between the parts of the batch: the rows
 * of all parts, one after another, or the sum of scalars, which are counts of rows or tokens. Tensors that are equal on
 * all ranks are constants of the program, and are left out. Throws ConfigError for tensors that differ and that cannot
 * be joined along dim 0.
 */
export function wholeBatch(records: readonly RankRecord[]): WholeBatch {
  const ofParts = recordsOfParts(records);
  const whole = new Map<string, RecordedLeaf>();
  for (const key of Object.keys(ofParts[0]?.leaves ?? {})) {
    const leaves = ofParts.flatMap((record) => record.leaves[key] ?? []);
    const [first, ...others] = leaves;
    if (first === undefined || leaves.length < ofParts.length) continue;
    if (others.every((other) => isSame(first, other))) continue;
    whole.set(key, joined(key, first, leaves));
  }
  return whole;
}

/** The first rank of each part of the batch, in the order of the parts. */
export function recordsOfParts(records: readonly RankRecord[]): readonly RankRecord[] {
  const first = new Map<number, RankRecord>();
  for (const record of records) {
    const { part } = partOf(record);
    if (!first.has(part)) first.set(part, record);
  }
  return [...first].toSorted(([a], [b]) => a - b).map(([, record]) => record);
}

function isSame(a: RecordedLeaf, b: RecordedLeaf): boolean {
  return (
    a.dtype === b.dtype &&
    a.shape.join() === b.shape.join() &&
    a.bytes.every((byte, index) => byte === b.bytes[index])
  );
}

function joined(key: string, first: RecordedLeaf, leaves: readonly RecordedLeaf[]): RecordedLeaf {
  const { dtype, shape } = first;
  const [, ...inner] = shape;
  const fits = leaves.every(
    (leaf) => leaf.dtype === dtype && leaf.shape.slice(1).join() === inner.join(),
  );
  if (shape.length === 0 && fits) return { dtype, shape, bytes: sum(dtype, leaves) };
  if (!fits || leaves.some((leaf) => leaf.shape.length !== shape.length)) {
    throw new ConfigError(
      {
        asked: `the tensor of data at ${key} for one rank`,
        found: `ranks have tensors of shapes ${leaves.map((leaf) => `[${leaf.shape.join(', ')}]`).join(' and ')}, which cannot be joined along dim 0`,
        todo: 'Make tensors of data with one row for each element of the batch, and pad them to one length',
      },
      { key },
    );
  }
  const rows = leaves.reduce((total, leaf) => total + (leaf.shape[0] ?? 0), 0);
  const bytes = new Uint8Array(elementCount([rows, ...inner]) * dtypes[dtype].bytes);
  let offset = 0;
  for (const leaf of leaves) {
    bytes.set(leaf.bytes, offset);
    offset += leaf.bytes.byteLength;
  }
  return { dtype, shape: [rows, ...inner], bytes };
}

/** The sum of scalars. Ranks that have a part of the batch each count their own. */
function sum(dtype: DType, leaves: readonly RecordedLeaf[]): Uint8Array {
  const views = leaves.map(({ bytes }) => new DataView(bytes.buffer, bytes.byteOffset));
  const result = new Uint8Array(dtypes[dtype].bytes);
  const view = new DataView(result.buffer);
  const total = (read: (from: DataView) => number): number =>
    views.reduce((before, each) => before + read(each), 0);
  if (dtype === 'f32')
    view.setFloat32(
      0,
      total((each) => each.getFloat32(0, true)),
      true,
    );
  else if (dtype === 'i32')
    view.setInt32(
      0,
      total((each) => each.getInt32(0, true)),
      true,
    );
  else {
    throw new ConfigError({
      asked: `a scalar of ${dtype} that ranks have different values of, for one rank`,
      found: 'only sums of f32 and i32 are known',
      todo: 'Make counts of f32 or i32',
    });
  }
  return result;
}

/** Returns, of each forward pass, those of all parts of the batch. */
export function passesOf(records: readonly RankRecord[]): readonly (readonly RecordedPass[])[] {
  const ofParts = recordsOfParts(records);
  const count = Math.max(0, ...ofParts.map(({ passes }) => passes.length));
  return Array.from({ length: count }, (_, index) =>
    ofParts.flatMap(({ passes }) => passes[index] ?? []),
  );
}
