import {
  allGather,
  boxShape,
  CheckpointError,
  type Chunk,
  commonRuns,
  convertArray,
  currentSession,
  type DimRange,
  dtypes,
  elementCount,
  fromBytes,
  fromData,
  type Module,
  noGrad,
  type SourcePart,
  type SourceTensor,
  type TensorReader,
  type TensorSource,
  wholeChunk,
} from '@shardwise/core/extend';
import { store } from '../lora/lora-layer.ts';
import { packScales } from '../quantized/packed-scales.ts';
import { QuantizedLinear, shapeOfBlocks } from '../quantized/quantized-linear.ts';
import { quantizeBlocks, type ScaledFormat, scaledFormatOf } from '../quantized/scaled-formats.ts';
import { transpose } from './transpose.ts';

type Rename = (name: string) => string | null;

/** The elements that are read, and quantized, at a time. */
const PIECE_ELEMENTS = 1024 * 1024;

/** A layer whose weight is quantized as it is read. */
interface Target {
  readonly layer: QuantizedLinear;
  readonly format: ScaledFormat;
  /** The scales of the blocks that this rank has read, by where the blocks are. */
  readonly read: { readonly blocks: Chunk; readonly scales: Float32Array }[];
}

/** Weights that become blocks of few bits where the model has such layers. */
export interface QuantizingSource {
  readonly source: TensorSource;
  /** The names of the model's scales of blocks, which files have not. */
  readonly scaleNames: readonly string[];
  /**
   * Stores the scales of the blocks that all ranks have read. It is a collective: each rank has the scales of its part of a
   * weight, and double quantization needs the mean of all.
   */
  readonly finish: () => Promise<void>;
}

/**
 * Makes weights of a source the blocks that layers of a model keep (`quantizeModel`). A rank reads the floats of its blocks,
 * some at a time, and keeps none of them. `rename`: the name in the model of a tensor of the source.
 */
export function quantizingSource(
  source: TensorSource,
  model: Module,
  rename: Rename,
): QuantizingSource {
  const layers = quantizedLayers(model);
  const targets = new Map<string, Target>();
  for (const name of source.names) {
    const target = layers.get(rename(name) ?? '');
    const dtype = source.get(name)?.dtype ?? 'u8';
    if (target !== undefined && dtypes[dtype].kind === 'float') targets.set(name, target);
  }
  const scaleNames = [...layers.keys()].flatMap((weight) =>
    ['absmax', 'nestedAbsmax', 'nestedMean'].map((own) => weight.replace(/weight$/, own)),
  );
  if (targets.size === 0) return { source, scaleNames: [], finish: async () => {} };
  return {
    source: {
      ...source,
      get(name) {
        const found = source.get(name);
        const target = targets.get(name);
        return found === undefined || target === undefined ? found : inBlocks(found, target);
      },
      open() {
        const reader = source.open();
        return {
          async fill(name, chunk, target, part) {
            const quantized = targets.get(name);
            if (quantized === undefined) return reader.fill(name, chunk, target, part);
            await new BlockReader(source, reader, name, part, quantized).fill(chunk, target);
          },
          [Symbol.asyncDispose]: () => reader[Symbol.asyncDispose](),
        };
      },
    },
    scaleNames,
    finish: async () => {
      for (const target of targets.values()) await storeScales(target);
      await currentSession().realize([]);
    },
  };
}

/** The layers whose blocks this package encodes, by the names of their weights. */
function quantizedLayers(model: Module): ReadonlyMap<string, Target> {
  const layers = new Map<string, Target>();
  for (const [path, layer] of model.namedModules()) {
    if (!(layer instanceof QuantizedLinear)) continue;
    const format = scaledFormatOf(layer.format);
    if (format !== undefined) layers.set(`${path}.weight`, { layer, format, read: [] });
  }
  return layers;
}

/** The type of a weight in blocks. One of another shape stays what it is, which is then an error. */
function inBlocks(found: SourceTensor, { layer, format }: Target): SourceTensor {
  const { outFeatures, inFeatures, isTransposedInFiles } = layer;
  const [rows, columns] = isTransposedInFiles ? found.shape.toReversed() : found.shape;
  const fits = found.shape.length === 2 && rows === outFeatures && columns === inFeatures;
  if (!fits) return found;
  return { ...found, dtype: 'u8', shape: [...blocksOf(layer), format.bytes] };
}

function blocksOf({ format, outFeatures, inFeatures }: QuantizedLinear): readonly number[] {
  return shapeOfBlocks(format, [outFeatures, inFeatures]);
}

/** Reads the floats of blocks, and quantizes them. */
class BlockReader {
  readonly #source: TensorSource;
  readonly #reader: TensorReader;
  readonly #name: string;
  readonly #part: SourcePart;
  readonly #target: Target;

  constructor(
    source: TensorSource,
    reader: TensorReader,
    name: string,
    part: SourcePart,
    target: Target,
  ) {
    this.#source = source;
    this.#reader = reader;
    this.#name = name;
    this.#part = part;
    this.#target = target;
  }

  /** Fills `target` with bytes of blocks. Shape: chunk of u8 [.., blocks, bytes]. */
  async fill(chunk: Chunk, target: Uint8Array<ArrayBuffer>): Promise<void> {
    const { format, read } = this.#target;
    const { bytes: size, elements } = format;
    const box = chunk.box.slice(0, -1);
    const bytes = chunk.box.at(-1);
    if (bytes === undefined || bytes.stop - bytes.start !== size) {
      throw new RangeError(`parts of blocks of ${this.#name}`);
    }
    // A part may begin and end within a block, which is quantized whole.
    const end = Math.ceil(chunk.stop / size);
    const rowBlocks = box.length === 1 ? 1 : elementCount(boxShape(box.slice(1)));
    const step = Math.max(1, Math.floor(PIECE_ELEMENTS / elements / rowBlocks)) * rowBlocks;
    for (let start = Math.floor(chunk.start / size); start < end; start += step) {
      const blocks = { box, start, stop: Math.min(end, start + step) };
      const found = quantizeBlocks(format, await this.#floats(blocks), this.#name);
      const first = Math.max(chunk.start, start * size);
      const stop = Math.min(chunk.stop, blocks.stop * size);
      target.set(
        found.bytes.subarray(first - start * size, stop - start * size),
        first - chunk.start,
      );
      read.push({ blocks, scales: found.scales });
    }
  }

  /** The elements of blocks. */
  async #floats({ box, start, stop }: Chunk): Promise<Float32Array> {
    const { layer, format } = this.#target;
    const { outFeatures, inFeatures } = layer;
    const { elements } = format;
    const [rows, rowBlocks] = box;
    const whole = wholeChunk([outFeatures, inFeatures]);
    const elementBox =
      rows === undefined || rowBlocks === undefined
        ? whole.box
        : [rows, { start: rowBlocks.start * elements, stop: rowBlocks.stop * elements }];
    const count = elementCount(boxShape(elementBox));
    return this.#read(elementBox, start * elements, Math.min(count, stop * elements));
  }

  /** Elements `start` to `stop` - 1 of a box of the weight [out, in]. */
  async #read(box: readonly DimRange[], start: number, stop: number): Promise<Float32Array> {
    if (!this.#target.layer.isTransposedInFiles) return this.#stored({ box, start, stop });
    const [rows = { start: 0, stop: 0 }, columns = rows] = box;
    const width = columns.stop - columns.start;
    const firstRow = Math.floor(start / width);
    const needed = {
      start: rows.start + firstRow,
      stop: rows.start + Math.ceil(stop / width),
    };
    const count = (needed.stop - needed.start) * width;
    const stored = await this.#stored({ box: [columns, needed], start: 0, stop: count });
    const bytes = new Uint8Array(stored.buffer, stored.byteOffset, stored.byteLength);
    const inOrder = transpose(bytes, width, needed.stop - needed.start, 4);
    const skipped = firstRow * width;
    return new Float32Array(inOrder.buffer).subarray(start - skipped, stop - skipped);
  }

  /** Elements as the file has them, in f32. */
  async #stored(chunk: Chunk): Promise<Float32Array> {
    const name = this.#name;
    const dtype = this.#source.get(name)?.dtype ?? 'f32';
    const count = chunk.stop - chunk.start;
    const bytes = new Uint8Array(count * dtypes[dtype].bytes);
    await this.#reader.fill(name, chunk, bytes, this.#part);
    const converted = convertArray({ dtype, shape: [count], bytes }, 'f32');
    if (converted !== undefined) {
      const values = fromBytes(converted.bytes.slice(), 'f32');
      if (values instanceof Float32Array) return values;
    }
    throw new CheckpointError(
      {
        asked: `to quantize '${name}' of ${this.#source.place}`,
        found: `numbers in ${dtype} that f32 has not`,
        todo: 'Load another file',
      },
      { name, dtype },
    );
  }
}

/** Stores the scales of a layer, of which each rank has read some. A collective if there are several ranks. */
async function storeScales({ layer, read }: Target): Promise<void> {
  const shape = blocksOf(layer);
  const own = new Float32Array(elementCount(shape));
  for (const { blocks, scales } of read.splice(0)) {
    for (const { first, second, count } of commonRuns(wholeChunk(shape), blocks)) {
      own.set(scales.subarray(second, second + count), first);
    }
  }
  const scales = await overAllRanks(own);
  const { absmax, nestedAbsmax, nestedMean } = layer;
  if (absmax === null) return;
  noGrad(() => {
    if (nestedAbsmax === null || nestedMean === null) {
      store(absmax, fromData(scales, shape, 'f32'));
      return;
    }
    const packed = packScales(scales);
    store(absmax, fromData(packed.codes, shape, 'u8'));
    store(nestedAbsmax, fromData(packed.scales, [packed.scales.length], 'f32'));
    store(nestedMean, fromData(packed.mean, [1], 'f32'));
  });
}

/** The largest number of any rank. Scales are positive, and those that a rank has not read are 0. */
async function overAllRanks(own: Float32Array<ArrayBuffer>): Promise<Float32Array<ArrayBuffer>> {
  const axes = currentSession().mesh.axes.filter(({ size }) => size > 1);
  if (axes.length === 0) return own;
  const start = fromData(own, [own.length], 'f32');
  const largest = noGrad(() =>
    axes.reduce((x, { name }) => allGather(x.unsqueeze(0), name, 0).max(0), start),
  );
  return Float32Array.from(await largest.data(), Number);
}
