import {
  elementCount,
  functional,
  type HostData,
  lowered,
  Module,
  Parameter,
  RecomputeRegion,
  type Shape,
  type Tensor,
} from '@shardwise/core/extend';
import type { SharedProduct } from '@shardwise/strategies';
import { type BlockFormat, isGgufFormat } from './block-format.ts';
import { blockedProduct } from './blocked-rows.ts';
import { packScales, unpackScales } from './packed-scales.ts';
import type { ScaledBlocks, ScaledFormat } from './scaled-formats.ts';

/** What a QuantizedLinear is made of. */
export type QuantizedParts = Pick<
  QuantizedLinear,
  | 'format'
  | 'outFeatures'
  | 'inFeatures'
  | 'weight'
  | 'absmax'
  | 'nestedAbsmax'
  | 'nestedMean'
  | 'bias'
  | 'isTransposedInFiles'
>;

type QuantizedWeight = Omit<QuantizedParts, 'bias' | 'isTransposedInFiles'>;

/** The shape in which the scales of blocks are kept: [out, blocks of a row] if each row is whole blocks, or [blocks]. */
export function shapeOfBlocks(
  { elements }: BlockFormat,
  [outFeatures, inFeatures]: readonly [number, number],
): Shape {
  return inFeatures % elements === 0
    ? [outFeatures, inFeatures / elements]
    : [Math.ceil((outFeatures * inFeatures) / elements)];
}

/** A weight in blocks whose scales are apart. */
export function scaledWeight(
  format: ScaledFormat,
  features: readonly [outFeatures: number, inFeatures: number],
  { bytes, scales }: ScaledBlocks,
  doubleQuantization: boolean,
): QuantizedWeight {
  const [outFeatures, inFeatures] = features;
  const shape = shapeOfBlocks(format, features);
  const weight = frozenData(bytes, [...shape, format.bytes], 'u8');
  const common = { format, outFeatures, inFeatures, weight };
  if (!doubleQuantization) {
    const absmax = frozenData(scales, shape, 'f32');
    return { ...common, absmax, nestedAbsmax: null, nestedMean: null };
  }
  const packed = packScales(scales);
  return {
    ...common,
    absmax: frozenData(packed.codes, shape, 'u8'),
    nestedAbsmax: frozenData(packed.scales, [packed.scales.length], 'f32'),
    nestedMean: frozenData(packed.mean, [1], 'f32'),
  };
}

/** A weight in blocks whose scales are apart, for values that come later. */
export function emptyScaledWeight(
  format: ScaledFormat,
  features: readonly [outFeatures: number, inFeatures: number],
  doubleQuantization: boolean,
): QuantizedWeight {
  const blocks = elementCount(shapeOfBlocks(format, features));
  const [bytes, scales] = [new Uint8Array(blocks * format.bytes), new Float32Array(blocks)];
  return scaledWeight(format, features, { bytes, scales }, doubleQuantization);
}

/** A weight whose blocks have their scales among their bytes, for values that come later. Each row is whole blocks. */
export function emptyBlocks(
  format: BlockFormat,
  [outFeatures, inFeatures]: readonly [number, number],
): QuantizedWeight {
  const rowBytes = (inFeatures / format.elements) * format.bytes;
  const bytes = new Uint8Array(outFeatures * rowBytes);
  return {
    format,
    outFeatures,
    inFeatures,
    weight: frozenData(bytes, [outFeatures, rowBytes], 'u8'),
    absmax: null,
    nestedAbsmax: null,
    nestedMean: null,
  };
}

function frozenData(data: HostData, shape: Shape, dtype: 'u8' | 'f32'): Parameter {
  return new Parameter(data, shape, { dtype, requiresGrad: false });
}

/**
 * A frozen Linear whose weight is kept in blocks of few bits. Each pass makes the weight anew, and the backward pass once more,
 * so that at most the one of the present layer is there in f32.
 */
export class QuantizedLinear extends Module {
  /**
   * Shape: u8 [out, blocks of a row, bytes] if each row is whole blocks, or [blocks, bytes]. Blocks of a file: u8 [out, bytes
   * of a row].
   */
  weight: Parameter;
  /**
   * The scales of blocks: f32, or with double quantization their codes in u8. Null if they are among the bytes.
   * Shape: [out, blocks of a row] or [blocks].
   */
  absmax: Parameter | null;
  /** Shape: f32 [ceil(blocks / 256)]. Null without double quantization. */
  nestedAbsmax: Parameter | null;
  /** Shape: f32 [1]. Null without double quantization. */
  nestedMean: Parameter | null;
  bias: Parameter | null;
  readonly format: BlockFormat;
  readonly outFeatures: number;
  readonly inFeatures: number;
  /** Whether files of the model have the weight as [in, out], as that of a Conv1D, and not as [out, in]. */
  readonly isTransposedInFiles: boolean;

  constructor({
    format,
    outFeatures,
    inFeatures,
    isTransposedInFiles,
    ...parameters
  }: QuantizedParts) {
    super();
    this.format = format;
    this.outFeatures = outFeatures;
    this.inFeatures = inFeatures;
    this.isTransposedInFiles = isTransposedInFiles;
    this.weight = parameters.weight;
    this.absmax = parameters.absmax;
    this.nestedAbsmax = parameters.nestedAbsmax;
    this.nestedMean = parameters.nestedMean;
    this.bias = parameters.bias;
  }

  /** Shape: x [.., in] -> [.., out]. */
  forward(x: Tensor): Tensor {
    const product = this.sharedProduct(x, null);
    return this.bias === null ? product : product.add(this.bias.to(product.dtype));
  }

  /** The product without the bias. Shape: x [.., in], or this rank's part of it -> [.., out], or this rank's part of it. */
  sharedProduct(x: Tensor, shared: SharedProduct | null): Tensor {
    return this.baseProduct(x, shared);
  }

  /** The product with the weight alone. Shape: as for sharedProduct. */
  baseProduct(x: Tensor, shared: SharedProduct | null): Tensor {
    const { format, weight } = this;
    // The bytes of blocks with their scales are all there is of a weight, or of this rank's part of it.
    if (isGgufFormat(format)) return blockedProduct(x, { weight, format });
    const own = lowered(x);
    return functional.linear(own, this.weightRows(shared, own.dtype));
  }

  /**
   * The weight, or this rank's part of it. Backward passes make it again instead of keeping it, also in fewer bits.
   * Shape: -> [out, in], or a part of its rows or columns.
   */
  weightRows(shared: SharedProduct | null, dtype: Tensor['dtype'] = 'f32'): Tensor {
    const region = new RecomputeRegion({ keeps: () => false });
    return region.run(() => this.#dequantized(shared).to(dtype));
  }

  #dequantized(shared: SharedProduct | null): Tensor {
    const { format, outFeatures, inFeatures } = this;
    const scales = this.#scales(shared);
    let blocks = format.decode(this.weight.reshape([-1, format.bytes]));
    if (scales !== null) blocks = blocks.mul(scales.reshape([-1, 1]));
    const [rows = 0, rowBlocks = 0] = this.weight.shape;
    // Of a layer that ranks share, the bytes are this rank's.
    const shape = shared === null ? [outFeatures, inFeatures] : [rows, rowBlocks * format.elements];
    return blocks.reshape([-1]).slice(0, 0, elementCount(shape)).reshape(shape);
  }

  /** The scales of the blocks that this rank has. Shape: -> as absmax. */
  #scales(shared: SharedProduct | null): Tensor | null {
    const { format, absmax: codes, nestedAbsmax: scales, nestedMean: mean } = this;
    if (codes === null || scales === null || mean === null) return codes;
    const shape = shapeOfBlocks(format, [this.outFeatures, this.inFeatures]);
    return unpackScales({ codes, scales, mean }, shape, (whole) => shared?.partOf(whole) ?? whole);
  }

  protected override describe(): string {
    const { inFeatures, outFeatures, format, bias } = this;
    return `inFeatures=${inFeatures}, outFeatures=${outFeatures}, format=${format.name}, bias=${bias !== null}`;
  }
}
