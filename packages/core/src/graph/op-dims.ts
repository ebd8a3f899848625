import { elementCount, sizeAt } from '../base/shape.ts';
import type { Shape } from '../spec/dtype.ts';
import type { AttentionParams, Conv2dParams, Op, OpParams } from '../spec/op.ts';

/** A factor of the size of a dim. Factors of one name are the same in all tensors of an op. */
export interface DimFactor {
  readonly name: string;
  readonly size: number;
}

/**
 * How the dims of an op's result follow from those of its inputs, from which it follows how a layout goes through the
 * op. Each dim is a list of factors, outermost first, as in the notation of einops: most dims are one factor, and a dim
 * of heads x width is two. A dim without factors belongs to one tensor only, and is whole on every rank. The result is a
 * sum over the factors that it does not have, unless they are in `whole`.
 */
export interface OpDims {
  readonly inputs: readonly (readonly (readonly DimFactor[])[])[];
  readonly output: readonly (readonly DimFactor[])[];
  /** The factors of which every rank needs all indices. */
  readonly whole?: readonly string[];
  /** The factor of the rows that the op looks up by the indices of its second input. */
  readonly lookup?: string;
}

type Dims = OpDims['output'];
type Rule<K extends Op> = (params: OpParams[K], shapes: readonly Shape[], output: Shape) => OpDims;

/** A dim of one factor. */
function dimOf(name: string, size: number): readonly DimFactor[] {
  return [{ name, size }];
}

function named(shape: Shape): Dims {
  return shape.map((size, dim) => dimOf(`dim ${dim}`, size));
}

function namesOf(dims: Dims): readonly string[] {
  return dims.flat().map(({ name }) => name);
}

function unlabelled(shape: Shape): Dims {
  return shape.map(() => []);
}

function shapeAt(shapes: readonly Shape[], index: number): Shape {
  const shape = shapes[index];
  if (shape === undefined) throw new RangeError(`no input ${index}`);
  return shape;
}

/** All inputs have the dims of the result. */
const elementwise: Rule<Op> = (_, shapes, output) => {
  const dims = named(output);
  return { inputs: shapes.map(() => dims), output: dims };
};

/** Like `elementwise`, but every rank needs these dims whole. */
function wholeIn(dims: readonly number[], shapes: readonly Shape[], output: Shape): OpDims {
  const own = named(output);
  const whole = dims.map((dim) => `dim ${dim < 0 ? dim + output.length : dim}`);
  return { inputs: shapes.map(() => own), output: own, whole };
}

const rowwise: Rule<Op> = (_, shapes, output) => wholeIn([-1], shapes, output);

/** Inputs are tensors of the shape of the first one, or vectors along its last dim. */
const normalized: Rule<Op> = (_, shapes, output) => {
  const own = named(shapeAt(shapes, 0));
  const last = own.slice(-1);
  const inputs = shapes.map((shape) => (shape.length === own.length ? own : last));
  return { inputs, output: output.length === own.length ? own : last, whole: namesOf(last) };
};

function reduced(dims: readonly number[], shape: Shape, isSum: boolean): OpDims {
  const input = named(shape);
  const gone = input.filter((_, dim) => dims.includes(dim));
  const output = input.filter((_, dim) => !dims.includes(dim));
  return isSum ? { inputs: [input], output } : { inputs: [input], output, whole: namesOf(gone) };
}

/**
 * Dims are regrouped into others, which have factors in common: [6, 4] -> [24] and [24] -> [6, 4] have a 6 and a 4, and
 * [6, 4] -> [8, 3] have a 2 at the start.
 */
function regrouped(shape: Shape, output: Shape): OpDims {
  if (elementCount(shape) === 0) return wholeInputs([shape], output);
  const input: (readonly DimFactor[])[] = [];
  const result: (readonly DimFactor[])[] = [];
  const whole: string[] = [];
  while (input.length < shape.length || result.length < output.length) {
    // The next dims of both shapes that have the same number of elements together.
    const [from, to] = [input.length, result.length];
    let [i, j, size, newSize] = [from, to, 1, 1];
    do {
      if (size <= newSize && i < shape.length) size *= sizeAt(shape, i++);
      else newSize *= sizeAt(output, j++);
    } while (size !== newSize);
    const group = factorsOf(shape.slice(from, i), output.slice(to, j), `dims from ${from}`);
    input.push(...group.input);
    result.push(...group.output);
    whole.push(...group.whole);
  }
  return { inputs: [input], output: result, whole };
}

/** The factors of dims that have the same number of elements together. */
function factorsOf(shape: Shape, output: Shape, name: string) {
  const ends = [...new Set([...endsOf(shape), ...endsOf(output)])].toSorted((a, b) => a - b);
  const isNested = ends.every((end, index) => end % (ends[index - 1] ?? 1) === 0);
  if (!isNested) return commonFactor(shape, output, name);
  const split = (sizes: Shape): Dims =>
    endsOf(sizes).map((end, dim, own) => {
      const start = own[dim - 1] ?? 1;
      const inside = ends.filter((each) => each > start && each <= end);
      return inside.map((each, index) => {
        return { name: `${name} to ${each}`, size: each / (inside[index - 1] ?? start) };
      });
    });
  return { input: split(shape), output: split(output), whole: [] };
}

/** The numbers of elements up to the end of each dim. */
function endsOf(shape: Shape): readonly number[] {
  return shape.map((_, dim) => elementCount(shape.slice(0, dim + 1)));
}

/** Dims without boundaries in common share a divisor of the first ones. The rest is needed whole. */
function commonFactor(shape: Shape, output: Shape, name: string) {
  const common = greatestDivisor(shape[0] ?? 1, output[0] ?? 1);
  const split = (sizes: Shape, side: string): Dims =>
    sizes.map((size, dim) =>
      dim === 0
        ? [...dimOf(name, common), ...dimOf(`${name}, rest of ${side}`, size / common)]
        : dimOf(`${name}, ${side} ${dim}`, size),
    );
  const input = split(shape, 'input');
  return { input, output: split(output, 'output'), whole: namesOf(input).slice(1) };
}

function greatestDivisor(a: number, b: number): number {
  return b === 0 ? a : greatestDivisor(b, a % b);
}

function matrixProduct(
  { transposeA, transposeB }: OpParams['matmul'],
  shapes: readonly Shape[],
): OpDims {
  const [a, b] = [shapeAt(shapes, 0), shapeAt(shapes, 1)];
  const count = Math.max(a.length, b.length) - 2;
  const batchOf = (shape: Shape): Dims =>
    shape.slice(0, -2).map((size, dim) => {
      // A dim of size 1 broadcasts.
      return size === 1 ? [] : dimOf(`batch ${count - (shape.length - 2) + dim}`, size);
    });
  const [m, k] = [a.at(transposeA ? -1 : -2) ?? 1, a.at(transposeA ? -2 : -1) ?? 1];
  const n = b.at(transposeB ? -2 : -1) ?? 1;
  const [rows, inner, columns] = [dimOf('m', m), dimOf('k', k), dimOf('n', n)];
  const [batchA, batchB] = [batchOf(a), batchOf(b)];
  const all = [...batchA, ...batchB];
  const batch = Array.from(
    { length: count },
    (_, dim) => all.find(([factor]) => factor?.name === `batch ${dim}`) ?? [],
  );
  return {
    inputs: [
      [...batchA, ...(transposeA ? [inner, rows] : [rows, inner])],
      [...batchB, ...(transposeB ? [columns, inner] : [inner, columns])],
    ],
    output: [...batch, rows, columns],
  };
}

/** The dims of the image, the weight and the result of a convolution. With groups, all channels are needed. */
function convolution(params: Conv2dParams, image: Shape, weight: Shape, result: Shape) {
  const [height, width] = [dimOf('H', sizeAt(image, 2)), dimOf('W', sizeAt(image, 3))];
  const [rows, columns] = [dimOf('R', sizeAt(weight, 2)), dimOf('S', sizeAt(weight, 3))];
  const inputs = dimOf('C', sizeAt(image, 1));
  const [items, outputs] = [dimOf('N', sizeAt(image, 0)), dimOf('O', sizeAt(weight, 0))];
  const perGroup = params.groups === 1 ? inputs : dimOf('C per group', sizeAt(weight, 1));
  const whole = ['H', 'W', 'R', 'S', "H'", "W'"];
  return {
    image: [items, inputs, height, width],
    weight: [outputs, perGroup, rows, columns],
    result: [items, outputs, dimOf("H'", sizeAt(result, 2)), dimOf("W'", sizeAt(result, 3))],
    whole: params.groups === 1 ? whole : [...whole, 'C', 'O', 'C per group'],
  };
}

/** Rows of x that an index names, for gather: the index has all dims of x. */
function gathered(dim: number, x: Shape, index: Shape): OpDims {
  const common = (size: number, at: number): boolean => size === x[at] && size === index[at];
  const from = x.map((size, at) => {
    if (at === dim) return dimOf('rows', size);
    return dimOf(common(size, at) ? `dim ${at}` : `x ${at}`, size);
  });
  const output = index.map((size, at) =>
    dimOf(at === dim ? 'index' : common(size, at) ? `dim ${at}` : `index ${at}`, size),
  );
  const whole = namesOf(from).filter((name) => name.startsWith('x '));
  return { inputs: [from, output], output, whole, lookup: 'rows' };
}

/** Rows of x that are replaced or increased by those of a source. The index has all dims of x. */
function scattered(dim: number, shapes: readonly Shape[]): OpDims {
  const [x, index, source] = [shapeAt(shapes, 0), shapeAt(shapes, 1), shapeAt(shapes, 2)];
  const isCommon = (at: number): boolean =>
    at !== dim && x[at] === index[at] && x[at] === source[at];
  const dimsOf = (shape: Shape, own: string): Dims =>
    shape.map((size, at) => dimOf(isCommon(at) ? `dim ${at}` : `${own} ${at}`, size));
  const inputs = [dimsOf(x, 'x'), dimsOf(index, 'index'), dimsOf(source, 'source')];
  const whole = inputs.flatMap(namesOf).filter((name) => !name.startsWith('dim'));
  return { inputs, output: dimsOf(x, 'x'), whole };
}

interface AttentionDims {
  readonly q: Dims;
  readonly k: Dims;
  readonly v: Dims;
  readonly y: Dims;
  readonly masks: readonly Dims[];
  readonly whole: readonly string[];
}

/** The query heads that read one head of keys lie together, so heads are divided in blocks of these. */
function attentionDims(
  params: AttentionParams,
  shapes: readonly Shape[],
  first: number,
): AttentionDims {
  const [q, k, v] = [shapeAt(shapes, 0), shapeAt(shapes, 1), shapeAt(shapes, 2)];
  const [items, heads, times] = [sizeAt(q, 0), sizeAt(q, 1), sizeAt(q, 2)];
  const groups = sizeAt(k, 1);
  const batch = (size: number): readonly DimFactor[] =>
    size === items ? dimOf('batch', items) : [];
  const keyHeads = dimOf('heads', groups);
  const queryHeads = [...keyHeads, ...dimOf('heads per group', heads / groups)];
  const [time, keys] = [dimOf('time', times), dimOf('keys', sizeAt(k, 2))];
  const [inner, width] = [dimOf('D', sizeAt(q, 3)), dimOf('E', sizeAt(v, 3))];
  const whole = ['keys', 'D', ...(params.causal ? ['time'] : [])];
  return {
    q: [batch(items), queryHeads, time, inner],
    k: [batch(sizeAt(k, 0)), keyHeads, keys, inner],
    v: [batch(sizeAt(v, 0)), keyHeads, keys, width],
    y: [batch(items), queryHeads, time, width],
    masks: shapes.slice(first).map((shape, index, all): Dims => {
      const times = shape[shape.length - 2] === 1 ? [] : time;
      const isRanges = params.hasKeyRanges && index === all.length - 1;
      if (isRanges) return [batch(sizeAt(shape, 0)), time, []];
      const head = sizeAt(shape, 1) === 1 ? [] : queryHeads;
      return [batch(sizeAt(shape, 0)), head, times, keys];
    }),
    whole,
  };
}

function attentionGradient(output: 'q' | 'k' | 'v') {
  return (params: AttentionParams, shapes: readonly Shape[]): OpDims => {
    const { masks, whole, ...dims } = attentionDims(params, shapes, 6);
    const rows = dims.y.slice(0, 3);
    const inputs = [dims.q, dims.k, dims.v, dims.y, rows, rows, ...masks];
    return { inputs, output: dims[output], whole: [...whole, 'E'] };
  };
}

/** The ops whose dims follow a rule of their own. */
type OwnDimsOp =
  | 'random'
  | 'sum'
  | 'max'
  | 'argMax'
  | 'argSort'
  | 'cumsum'
  | 'reshape'
  | 'permute'
  | 'expand'
  | 'slice'
  | 'pad'
  | 'concat'
  | 'matmul'
  | 'conv2d'
  | 'conv2dInput'
  | 'conv2dWeight'
  | 'gather'
  | 'scatterAdd'
  | 'scatter'
  | 'indexSelect'
  | 'indexAdd'
  | 'groupedMatmul'
  | 'groupedMatmulWeight'
  | 'attention'
  | 'attentionLogSumExp'
  | 'attentionQueryGrad'
  | 'attentionKeyGrad'
  | 'attentionValueGrad';

/**
 * The rules that ops have in common. Elementwise: all inputs have the dims of the result. Rowwise: the same, and the
 * last dim is needed whole. Normalized: inputs are tensors like the first one, or vectors along its last dim. None: the
 * op takes no distributed tensors, or redistribution makes it itself.
 */
type SharedDims = 'elementwise' | 'rowwise' | 'normalized' | 'none';

/** What an entry says of the dims of its op: which of the rules it has in common with others, or that it has its own. */
export type DimsOf<K extends Op> = K extends OwnDimsOp ? 'own' : SharedDims;

const shared: Readonly<Record<SharedDims, Rule<Op> | null>> = {
  elementwise,
  rowwise,
  normalized,
  none: null,
};

const own: { readonly [K in OwnDimsOp]: Rule<K> } = {
  random: (_, shapes, output) => wholeInputs(shapes, output),

  sum: ({ dims }, shapes) => reduced(dims, shapeAt(shapes, 0), true),
  max: ({ dims }, shapes) => reduced(dims, shapeAt(shapes, 0), false),
  argMax: ({ dim }, shapes) => reduced([dim], shapeAt(shapes, 0), false),
  argSort: ({ dim }, shapes, output) => wholeIn([dim], shapes, output),
  cumsum: ({ dim }, shapes, output) => wholeIn([dim], shapes, output),

  reshape: (_, shapes, output) => regrouped(shapeAt(shapes, 0), output),
  permute: ({ order }, shapes) => {
    const input = named(shapeAt(shapes, 0));
    return { inputs: [input], output: order.map((dim) => input[dim] ?? []) };
  },
  expand: (_, shapes, output) => {
    const dims = named(output);
    return {
      inputs: [dims.map((dim, at) => (shapes[0]?.[at] === output[at] ? dim : []))],
      output: dims,
    };
  },
  slice: ({ starts, stops, steps }, shapes, output) => {
    const shape = shapeAt(shapes, 0);
    const isWhole = (dim: number): boolean =>
      starts[dim] === 0 && stops[dim] === shape[dim] && steps[dim] === 1;
    const input = named(shape);
    const cut = input.filter((_, dim) => !isWhole(dim));
    return {
      inputs: [input],
      output: output.map((_, dim) => (isWhole(dim) ? (input[dim] ?? []) : [])),
      whole: namesOf(cut),
    };
  },
  pad: ({ before, after }, shapes, output) => {
    const input = named(shapeAt(shapes, 0));
    const isPadded = (dim: number): boolean => before[dim] !== 0 || after[dim] !== 0;
    return {
      inputs: [input],
      output: output.map((_, dim) => (isPadded(dim) ? [] : (input[dim] ?? []))),
      whole: namesOf(input.filter((_, dim) => isPadded(dim))),
    };
  },
  concat: ({ dim }, shapes, output) => {
    const own = named(output);
    const inputs = shapes.map((shape, index) => {
      return own.with(dim, dimOf(`input ${index}`, sizeAt(shape, dim)));
    });
    const whole = shapes.map((_, index) => `input ${index}`);
    return { inputs, output: own.map((each, at) => (at === dim ? [] : each)), whole };
  },

  matmul: matrixProduct,
  conv2d: (params, [image = [], weight = []], output) => {
    const dims = convolution(params, image, weight, output);
    return { inputs: [dims.image, dims.weight], output: dims.result, whole: dims.whole };
  },
  conv2dInput: (params, [result = [], weight = []], output) => {
    const dims = convolution(params, output, weight, result);
    return { inputs: [dims.result, dims.weight], output: dims.image, whole: dims.whole };
  },
  conv2dWeight: (params, [image = [], result = []], output) => {
    const dims = convolution(params, image, output, result);
    return { inputs: [dims.image, dims.result], output: dims.weight, whole: dims.whole };
  },

  gather: ({ dim }, [x = [], index = []]) => gathered(dim, x, index),
  scatterAdd: ({ dim }, shapes) => scattered(dim, shapes),
  scatter: ({ dim }, shapes) => scattered(dim, shapes),
  indexSelect: ({ dim }, [x = [], index = []]) => {
    const from = named(x).with(dim, dimOf('rows', sizeAt(x, dim)));
    const rows = dimOf('index', sizeAt(index, 0));
    return { inputs: [from, [rows]], output: from.with(dim, rows), lookup: 'rows' };
  },
  indexAdd: ({ dim }, [x = [], index = []]) => {
    const from = named(x).with(dim, dimOf('rows', sizeAt(x, dim)));
    const rows = dimOf('index', sizeAt(index, 0));
    return { inputs: [from, [rows], from.with(dim, rows)], output: from, whole: ['rows', 'index'] };
  },

  groupedMatmul: ({ transposeB }, [x = [], weight = []]) => {
    const [rows, inner] = [dimOf('rows', sizeAt(x, 0)), dimOf('k', sizeAt(x, 1))];
    const columns = dimOf('n', sizeAt(weight, transposeB ? 1 : 2));
    const groups = dimOf('groups', sizeAt(weight, 0));
    const own = transposeB ? [groups, columns, inner] : [groups, inner, columns];
    const whole = ['rows', 'groups'];
    return { inputs: [[rows, inner], own, [groups]], output: [rows, columns], whole };
  },
  groupedMatmulWeight: (_, [a = [], b = [], counts = []]) => {
    const [rows, inner] = [dimOf('rows', sizeAt(a, 0)), dimOf('k', sizeAt(a, 1))];
    const [columns, groups] = [dimOf('n', sizeAt(b, 1)), dimOf('groups', sizeAt(counts, 0))];
    return {
      inputs: [[rows, inner], [rows, columns], [groups]],
      output: [groups, inner, columns],
      whole: ['rows', 'groups'],
    };
  },
  attention: (params, shapes) => {
    const { q, k, v, y, masks, whole } = attentionDims(params, shapes, 3);
    return { inputs: [q, k, v, ...masks], output: y, whole };
  },
  attentionLogSumExp: (params, shapes) => {
    const [q = [], k = []] = shapes;
    const { masks, whole, ...dims } = attentionDims(params, [q, k, k, ...shapes.slice(2)], 3);
    return { inputs: [dims.q, dims.k, ...masks], output: dims.q.slice(0, 3), whole };
  },
  attentionQueryGrad: attentionGradient('q'),
  attentionKeyGrad: attentionGradient('k'),
  attentionValueGrad: attentionGradient('v'),
};

/** How a layout goes through an op. Null: the op takes no distributed tensors. */
export function dimRuleOf<K extends Op>(op: K, dims: SharedDims | 'own'): Rule<K> | null {
  if (dims !== 'own') return shared[dims];
  const rules: { readonly [P in Op]?: Rule<P> } = own;
  return rules[op] ?? null;
}

/** Every rank needs the whole inputs, and has the whole result. */
function wholeInputs(shapes: readonly Shape[], output: Shape): OpDims {
  const inputs = shapes.map(named);
  return { inputs, output: unlabelled(output), whole: inputs.flatMap(namesOf) };
}
