import {
  BufferTensor,
  dtypes,
  elementCount,
  fromBytes,
  type Shape,
  type Tensor,
} from '@shardwise/core/extend';

/** What keys and values are kept in. `auto` is the dtype in which the model computes them. The names are those of vLLM. */
export type KvCacheDtype = 'auto' | 'float16' | 'bfloat16' | 'int8';

export const kvCacheDtypes: readonly KvCacheDtype[] = ['auto', 'float16', 'bfloat16', 'int8'];

/** The keys or the values of a layer, as they are kept: a row for each place of the cache. */
export interface KeptRows {
  /** The tensors in which they are, in a fixed order. Each has a row for each place. Shape: each [slots, ..]. */
  readonly tensors: readonly BufferTensor[];
  /** Puts rows into their places. Shape: places i32 [T, 1], rows [T, G * D]. */
  write(places: Tensor, rows: Tensor): void;
  /** All rows in their blocks, in the dtype that is computed with. Shape: -> [N, P, G, D]. */
  read(): Tensor;
}

/** The number of blocks, of rows of a block, of heads of a row, and of features of a head. */
export interface RowSizes {
  readonly blockCount: number;
  readonly blockSize: number;
  readonly groups: number;
  readonly width: number;
}

/** Makes rows of zeros. `like` are rows as the model makes them. */
export function keptRows(kind: KvCacheDtype, like: Tensor, sizes: RowSizes): KeptRows {
  if (kind === 'int8') return new ScaledRows(sizes, like.dtype);
  return new PlainRows(sizes, kind === 'auto' ? like.dtype : storedDtypes[kind], like.dtype);
}

const storedDtypes = { float16: 'f16', bfloat16: 'bf16' } as const;

/** The bytes of such rows. */
export function bytesOfRows(kind: KvCacheDtype, like: Tensor, sizes: RowSizes): number {
  const { groups, width } = sizes;
  const rowBytes =
    kind === 'int8'
      ? groups * (width + dtypes.f32.bytes)
      : groups * width * dtypes[kind === 'auto' ? like.dtype : storedDtypes[kind]].bytes;
  return rowsOf(sizes) * rowBytes;
}

/** The bytes of tensors. */
export function bytesOf(tensors: readonly BufferTensor[]): number {
  return tensors.reduce(
    (sum, { shape, dtype }) => sum + elementCount(shape) * dtypes[dtype].bytes,
    0,
  );
}

class PlainRows implements KeptRows {
  readonly tensors: readonly [BufferTensor];
  readonly #sizes: RowSizes;
  readonly #computed: Tensor['dtype'];

  constructor(sizes: RowSizes, stored: Tensor['dtype'], computed: Tensor['dtype']) {
    const { groups, width } = sizes;
    this.tensors = [zeros([rowsOf(sizes), groups * width], stored)];
    this.#sizes = sizes;
    this.#computed = computed;
  }

  write(places: Tensor, rows: Tensor): void {
    const [kept] = this.tensors;
    put(kept, places, rows.to(kept.dtype));
  }

  read(): Tensor {
    const { blockCount, blockSize, groups, width } = this.#sizes;
    const [kept] = this.tensors;
    return kept.reshape([blockCount, blockSize, groups, width]).to(this.#computed);
  }
}

/** The largest distance of a byte from that of 0. */
const MOST = 127;
const BYTE_OF_ZERO = 128;
/** The least scale, so that a row of zeros is not divided by 0. */
const LEAST = 1e-30;

/**
 * Rows in 8 bits: each head of a token has a scale, by which its largest number becomes 127. What a token is kept as depends
 * on nothing but the token, so texts do not depend on chunks, on the batch, or on preemptions. A scale for a whole block
 * would change when another token comes into the block.
 */
class ScaledRows implements KeptRows {
  readonly tensors: readonly [bytes: BufferTensor, scales: BufferTensor];
  readonly #sizes: RowSizes;
  readonly #computed: Tensor['dtype'];

  constructor(sizes: RowSizes, computed: Tensor['dtype']) {
    const { groups, width } = sizes;
    const rows = rowsOf(sizes);
    this.tensors = [zeros([rows, groups * width], 'u8'), zeros([rows, groups], 'f32')];
    this.#sizes = sizes;
    this.#computed = computed;
  }

  write(places: Tensor, rows: Tensor): void {
    const { groups, width } = this.#sizes;
    const [tokens = 0] = rows.shape;
    const heads = rows.to('f32').reshape([tokens, groups, width]);
    const scale = heads.abs().max(2, { keepDim: true }).div(MOST).maximum(LEAST);
    // The conversion drops what is behind the point.
    const bytes = heads
      .div(scale)
      .add(BYTE_OF_ZERO + 0.5)
      .to('u8');
    const [keptBytes, scales] = this.tensors;
    put(keptBytes, places, bytes.reshape([tokens, groups * width]));
    put(scales, places, scale.reshape([tokens, groups]));
  }

  read(): Tensor {
    const { blockCount, blockSize, groups, width } = this.#sizes;
    const [bytes, scales] = this.tensors;
    const inBlocks = [blockCount, blockSize, groups];
    const centred = bytes
      .reshape([...inBlocks, width])
      .to('f32')
      .sub(BYTE_OF_ZERO);
    return centred.mul(scales.reshape([...inBlocks, 1])).to(this.#computed);
  }
}

function rowsOf({ blockCount, blockSize }: RowSizes): number {
  return blockCount * blockSize;
}

function zeros(shape: Shape, dtype: Tensor['dtype']): BufferTensor {
  const bytes = new Uint8Array(elementCount(shape) * dtypes[dtype].bytes);
  return new BufferTensor(fromBytes(bytes, dtype), shape, { dtype });
}

/** Puts rows into their places, in place. Shape: kept [slots, N], places i32 [T, 1], rows [T, N]. */
export function put(kept: BufferTensor, places: Tensor, rows: Tensor): void {
  kept.assign(kept.scatter(0, places.expand(rows.shape), rows));
}
