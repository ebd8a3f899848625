import {
  elementCount,
  functional,
  type HostData,
  Module,
  Parameter,
  RecomputeRegion,
  type Shape,
  type Tensor,
} from '@shardwise/core/extend';
import type { BlockFormat } from './block-format.ts';
import { inGroups, scaledFormats, scalesOf } from './scaled-formats.ts';
import { packScales, unpackScales } from './packed-scales.ts';

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
>;

/** Quantizes a weight in blocks of its elements in row-major order. Shape: weight [out, in]. */
export async function quantizeWeight(
  weight: Tensor,
  bits: 4 | 8,
  doubleQuantization: boolean,
): Promise<Omit<QuantizedParts, 'bias'>> {
  const [outFeatures = 0, inFeatures = 0] = weight.shape;
  const format = scaledFormats[bits];
  const blocks = inGroups(weight.detach().to('f32'), format.elements);
  const scales = scalesOf(blocks);
  const bytes = format.encode(blocks.div(scales.reshape([-1, 1])));
  const common = { format, outFeatures, inFeatures, weight: await frozen(bytes, 'u8') };
  if (!doubleQuantization) {
    return { ...common, absmax: await frozen(scales, 'f32'), nestedAbsmax: null, nestedMean: null };
  }
  const packed = packScales(Float32Array.from(await scales.data(), Number));
  return {
    ...common,
    absmax: frozenData(packed.codes, [packed.codes.length], 'u8'),
    nestedAbsmax: frozenData(packed.scales, [packed.scales.length], 'f32'),
    nestedMean: frozenData(packed.mean, [1], 'f32'),
  };
}

/** A parameter of the values of a tensor, which does not train. */
async function frozen(values: Tensor, dtype: 'u8' | 'f32'): Promise<Parameter> {
  return frozenData((await values.data()).slice(), values.shape, dtype);
}

/** A weight whose blocks have their scales among their bytes, for values that come later. Each row is whole blocks. */
export function emptyBlocks(
  format: BlockFormat,
  [outFeatures, inFeatures]: readonly [number, number],
): Omit<QuantizedParts, 'bias'> {
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
  /** Shape: u8 [blocks, bytes], or [out, bytes of a row] if each row is whole blocks. */
  weight: Parameter;
  /**
   * The scales of blocks: f32 [blocks], or with double quantization their codes: u8 [blocks]. Null if they are among the
   * bytes.
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

  constructor({ format, outFeatures, inFeatures, ...parameters }: QuantizedParts) {
    super();
    this.format = format;
    this.outFeatures = outFeatures;
    this.inFeatures = inFeatures;
    this.weight = parameters.weight;
    this.absmax = parameters.absmax;
    this.nestedAbsmax = parameters.nestedAbsmax;
    this.nestedMean = parameters.nestedMean;
    this.bias = parameters.bias;
  }

  /** Shape: x [.., in] -> [.., out]. */
  forward(x: Tensor): Tensor {
    const product = this.baseProduct(x);
    return this.bias === null ? product : product.add(this.bias.to(product.dtype));
  }

  /** The product without the bias. Shape: x [.., in] -> [.., out]. */
  baseProduct(x: Tensor): Tensor {
    return functional.linear(x, this.weightRows().to(x.dtype));
  }

  /** The weight in f32. Backward passes make it again instead of keeping it. Shape: -> [out, in]. */
  weightRows(): Tensor {
    const region = new RecomputeRegion({ keeps: () => false });
    return region.run(() => this.#dequantized());
  }

  #dequantized(): Tensor {
    const { format, absmax: codes, nestedAbsmax: scales, nestedMean: mean } = this;
    const { outFeatures, inFeatures } = this;
    let blocks = format.decode(this.weight.reshape([-1, format.bytes]));
    if (codes !== null) {
      const absmax =
        scales === null || mean === null ? codes : unpackScales({ codes, scales, mean });
      blocks = blocks.mul(absmax.reshape([-1, 1]));
    }
    const shape = [outFeatures, inFeatures];
    return blocks.reshape([-1]).slice(0, 0, elementCount(shape)).reshape(shape);
  }

  protected override describe(): string {
    const { inFeatures, outFeatures, format, bias } = this;
    return `inFeatures=${inFeatures}, outFeatures=${outFeatures}, format=${format.name}, bias=${bias !== null}`;
  }
}
