import { formatShape, type Shape, ShapeError } from '@shardwise/core/extend';
import type { BinaryOp, OpCall } from './op-call.ts';

/** The name of a dim, the same in all inputs that have the dim. Null: a dim of size 1 that broadcasts. */
export type DimLabel = string | null;

/**
 * The inputs in which an op is linear, which decides whether a partial sum may stay one. `all`: in all of them
 * together, as an addition. A list: in each of these alone, as a product.
 */
type Linearity = 'all' | readonly number[];

/**
 * The properties of an op that layouts depend on. A label that the output lacks is summed over, unless it is in
 * `whole`.
 */
export interface OpSignature {
  readonly inputs: readonly (readonly DimLabel[])[];
  readonly output: readonly DimLabel[];
  /** The dims of which every rank needs all elements. */
  readonly whole: readonly string[];
  readonly linear: Linearity;
  readonly sizes: ReadonlyMap<string, number>;
}

type Labels = Omit<OpSignature, 'sizes'>;

/** The op is linear in none of its inputs. */
const nowhere: Linearity = [];

/** The inputs in which elementwise ops are linear, for two tensors, and for a tensor and a number. */
const binaryLinearity: {
  readonly [K in BinaryOp]: { readonly tensors: Linearity; readonly number: Linearity };
} = {
  add: { tensors: 'all', number: nowhere },
  sub: { tensors: 'all', number: nowhere },
  mul: { tensors: [0, 1], number: 'all' },
  div: { tensors: [0], number: 'all' },
  maximum: { tensors: nowhere, number: nowhere },
  minimum: { tensors: nowhere, number: nowhere },
};

/** Returns the signature of an op. Throws ShapeError for shapes that do not fit each other. */
export function signatureOf(call: OpCall, shapes: readonly Shape[]): OpSignature {
  const labels = labelsOf(call, shapes);
  return { ...labels, sizes: sizesOf(call, labels, shapes) };
}

function labelsOf(call: OpCall, shapes: readonly Shape[]): Labels {
  const [first = [], second = []] = shapes;
  switch (call.op) {
    case 'neg':
      return elementwise(shapes, 'all');
    case 'abs':
    case 'exp':
    case 'log':
    case 'sqrt':
    case 'square':
    case 'tanh':
    case 'sigmoid':
    case 'relu':
    case 'gelu':
    case 'silu':
    case 'ne':
    case 'to':
      return elementwise(shapes, nowhere);
    case 'add':
    case 'sub':
    case 'mul':
    case 'div':
    case 'maximum':
    case 'minimum':
      return elementwise(shapes, binaryLinearity[call.op].tensors);
    case 'withNumber':
      return elementwise(shapes, binaryLinearity[call.binary].number);
    case 'sum':
    case 'max': {
      const input = named(first);
      const isReduced = (_: DimLabel, dim: number): boolean => call.dims.includes(dim);
      const output = call.keepDim
        ? input.map((label, dim) => (call.dims.includes(dim) ? null : label))
        : input.filter((_, dim) => !call.dims.includes(dim));
      const isSum = call.op === 'sum';
      return {
        inputs: [input],
        output,
        whole: isSum ? [] : input.filter(isReduced),
        linear: isSum ? 'all' : nowhere,
      };
    }
    case 'permute': {
      const input = named(first);
      const output = call.order.map((dim) => input[dim] ?? null);
      return { inputs: [input], output, whole: [], linear: 'all' };
    }
    case 'matmul': {
      const [batchA, batchB] = [first.slice(0, -2), second.slice(0, -2)];
      const { inputs, output } = elementwise([batchA, batchB], nowhere);
      const [a = [], b = []] = inputs;
      return {
        inputs: [
          [...a, 'm', 'k'],
          [...b, ...(call.transposeB ? ['n', 'k'] : ['k', 'n'])],
        ],
        output: [...output, 'm', 'n'],
        whole: [],
        linear: [0, 1],
      };
    }
    case 'softmax':
    case 'logSoftmax': {
      const input = named(first);
      return {
        inputs: [input],
        output: input,
        whole: input.slice(call.dim, call.dim + 1),
        linear: nowhere,
      };
    }
    case 'layerNorm':
    case 'rmsNorm': {
      const input = named(first);
      const last = input.slice(-1);
      const inputs = [input, ...shapes.slice(1).map(() => last)];
      return { inputs, output: input, whole: last, linear: nowhere };
    }
    case 'embedding': {
      const indices = named(first);
      return {
        inputs: [indices, ['row', 'column']],
        output: [...indices, 'column'],
        whole: [],
        linear: [1],
      };
    }
    case 'crossEntropy': {
      const logits = named(first);
      const targets = logits.slice(0, -1);
      return {
        inputs: [logits, targets],
        output: targets,
        whole: logits.slice(-1),
        linear: nowhere,
      };
    }
    default:
      return call satisfies never;
  }
}

function named(shape: Shape): string[] {
  return shape.map((_, dim) => `dim ${dim}`);
}

/** Returns the labels of an elementwise op. Dims are aligned at the end, and those of size 1 broadcast. */
function elementwise(shapes: readonly Shape[], linear: Linearity): Labels {
  const ndim = Math.max(...shapes.map((shape) => shape.length));
  const inputs = shapes.map((shape) =>
    shape.map((size, dim) => (size === 1 ? null : `dim ${ndim - shape.length + dim}`)),
  );
  const output = Array.from({ length: ndim }, (_, dim) => {
    const label = `dim ${dim}`;
    return inputs.some((input) => input.includes(label)) ? label : null;
  });
  return { inputs, output, whole: [], linear };
}

function sizesOf(
  call: OpCall,
  { inputs }: Labels,
  shapes: readonly Shape[],
): ReadonlyMap<string, number> {
  const sizes = new Map<string, number>();
  const refuse = (found: string): ShapeError =>
    new ShapeError(
      {
        asked: `${call.op} of shapes ${shapes.map(formatShape).join(', ')}`,
        found,
        todo: 'Reshape or slice an input',
      },
      { shapes },
    );
  inputs.forEach((labels, index) => {
    const shape = shapes[index] ?? [];
    if (labels.length !== shape.length) {
      throw refuse(`${shape.length} dims of input ${index}, where ${labels.length} are needed`);
    }
    labels.forEach((label, dim) => {
      const size = shape[dim] ?? 1;
      if (label === null) return;
      const known = sizes.get(label) ?? size;
      if (known !== size) throw refuse(`sizes ${known} and ${size} of one dim`);
      sizes.set(label, size);
    });
  });
  return sizes;
}
