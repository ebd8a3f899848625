import { at, requireDType, shapeFault } from '../../graph/infer-checks.ts';
import type { Node } from '../../graph/node.ts';
import { BlockCodec } from '../../graph/ops/blocked.ts';
import { matmul } from '../../graph/ops/contract.ts';
import { cast } from '../../graph/ops/elementwise.ts';
import { reshape } from '../../graph/ops/movement.ts';
import { composedAll } from '../../realize/pending/small-values.ts';
import type { ValueType } from '../../spec/dtype.ts';
import type { GgufBlockFormat } from '../../spec/gguf-blocks.ts';
import { Tensor } from '../../tensor/tensor.ts';

/** A format of blocks, and how its blocks are decoded by operations on tensors. */
export interface DecodedFormat extends GgufBlockFormat {
  /** Shape: u8 [blocks, bytes] -> f32 [blocks, elements]. */
  readonly decode: (bytes: Tensor) => Tensor;
}

class DecodedCodec extends BlockCodec {
  readonly name: GgufBlockFormat['name'];
  readonly elements: number;
  readonly bytes: number;
  readonly #decode: DecodedFormat['decode'];

  constructor({ name, elements, bytes, decode }: DecodedFormat) {
    super();
    this.name = name;
    this.elements = elements;
    this.bytes = bytes;
    this.#decode = decode;
  }

  infer(inputs: readonly ValueType[]): ValueType {
    const { name, elements, bytes } = this;
    const [x, weight] = [at(inputs, 0), at(inputs, 1)];
    requireDType('blockedLinear', x, ['f32', 'f64']);
    requireDType('blockedLinear', weight, ['u8']);
    const [rows = 0, depth = 0] = x.shape;
    const [columns = 0, rowBytes = 0] = weight.shape;
    const fits = x.shape.length === 2 && weight.shape.length === 2;
    if (!fits || rowBytes * elements !== depth * bytes || depth % elements !== 0) {
      throw shapeFault(
        'blockedLinear',
        inputs,
        `rows that do not fit blocks of ${bytes} bytes for ${elements} elements (${name})`,
        'Use x [N, K] and bytes [O, K / elements * bytes]',
      );
    }
    return { shape: [rows, columns], dtype: x.dtype };
  }

  multiply(x: Node, weight: Node, forward: boolean): Node {
    return matmul(x, cast(this.#rowsOf(weight), x.dtype), false, forward);
  }

  /** Shape: u8 [O, bytes of a row] -> f32 [O, K]. */
  #rowsOf(weight: Node): Node {
    const [rows = 0, rowBytes = 0] = weight.shape;
    const blocks = rowBytes / this.bytes;
    // A plan decodes leaves that stand for others, of which no value may be remembered.
    const decoded = composedAll(
      () => this.#decode(new Tensor(reshape(weight, [rows * blocks, this.bytes]))),
      () => [],
    );
    return reshape(decoded.node, [rows, blocks * this.elements]);
  }
}

const codecs = new WeakMap<DecodedFormat, BlockCodec>();

/** The format as a parameter of the op. */
export function codecOf(format: DecodedFormat): BlockCodec {
  const codec = codecs.get(format) ?? new DecodedCodec(format);
  codecs.set(format, codec);
  return codec;
}
