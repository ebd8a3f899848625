import { elementCount, formatShape, sameShape, sizeAt } from '../shape.ts';
import type { DType, Shape, ValueType } from '../spec/dtype.ts';
import { DTypeError, ShapeError } from '../spec/errors.ts';
import type { Conv2dParams, Op, OpParams } from '../spec/op.ts';

type Infer<K extends Op> = (params: OpParams[K], inputs: readonly ValueType[]) => ValueType;

function first(inputs: readonly ValueType[]): ValueType {
  return at(inputs, 0);
}

function at(inputs: readonly ValueType[], index: number): ValueType {
  const input = inputs[index];
  if (input === undefined) throw new RangeError(`input ${index} of an op with ${inputs.length} inputs`);
  return input;
}

function requireDType(op: string, input: ValueType, allowed: readonly DType[]): void {
  if (allowed.includes(input.dtype)) return;
  throw new DTypeError(
    {
      asked: `${op} of a ${input.dtype} tensor of shape ${formatShape(input.shape)}`,
      found: `${op} takes ${allowed.join(' or ')}`,
      todo: `Convert it first, for example with .to('${allowed[0]}')`,
    },
    { op, dtype: input.dtype, allowed },
  );
}

function shapeFault(op: string, inputs: readonly ValueType[], found: string, todo: string): ShapeError {
  const shapes = inputs.map((input) => input.shape);
  return new ShapeError({ asked: `${op} of shapes ${shapes.map(formatShape).join(', ')}`, found, todo }, { op, shapes });
}

const floats: readonly DType[] = ['f32', 'f64', 'f16', 'bf16'];
const numbers: readonly DType[] = [...floats, 'i32', 'i64', 'u8'];
const indices: readonly DType[] = ['i32'];
const bools: readonly DType[] = ['bool'];

const unary =
  (op: string, allowed: readonly DType[]) =>
  (_: unknown, inputs: readonly ValueType[]): ValueType => {
    const x = first(inputs);
    requireDType(op, x, allowed);
    return x;
  };

function requireSame(op: string, inputs: readonly ValueType[]): void {
  const a = at(inputs, 0);
  for (let i = 1; i < inputs.length; i++) {
    const b = at(inputs, i);
    if (a.dtype !== b.dtype) {
      throw new DTypeError(
        {
          asked: `${op} of ${a.dtype} ${formatShape(a.shape)} and ${b.dtype} ${formatShape(b.shape)}`,
          found: 'two dtypes',
          todo: `Convert one of them with .to('${a.dtype}') or .to('${b.dtype}')`,
        },
        { op, dtypes: inputs.map((input) => input.dtype) },
      );
    }
    if (!sameShape(a.shape, b.shape)) throw shapeFault(op, inputs, 'shapes that differ', 'Expand them to one shape');
  }
}

const binary =
  (op: string, allowed: readonly DType[]) =>
  (_: unknown, inputs: readonly ValueType[]): ValueType => {
    requireDType(op, first(inputs), allowed);
    requireSame(op, inputs);
    return first(inputs);
  };

const compare =
  (op: string) =>
  (_: unknown, inputs: readonly ValueType[]): ValueType => {
    requireDType(op, first(inputs), numbers);
    requireSame(op, inputs);
    return { shape: first(inputs).shape, dtype: 'bool' };
  };

function without(shape: Shape, dims: readonly number[]): Shape {
  return shape.filter((_, dim) => !dims.includes(dim));
}

function withSize(shape: Shape, dim: number, size: number): Shape {
  return shape.map((old, d) => (d === dim ? size : old));
}

/** A row-wise op: the last input dim must equal the vectors' size. */
const rowwise =
  (op: string, vectors: readonly number[], tensors: readonly number[]) =>
  (_: unknown, inputs: readonly ValueType[]): ValueType => {
    const x = first(inputs);
    for (let i = 0; i < inputs.length; i++) requireDType(op, at(inputs, i), floats);
    const size = x.shape.at(-1);
    if (size === undefined) throw shapeFault(op, inputs, 'a scalar', 'Use a tensor with at least one dim');
    for (const i of vectors) {
      if (!sameShape(at(inputs, i).shape, [size])) {
        throw shapeFault(op, inputs, `last dim ${size} and a weight of another size`, `Use weights of shape [${size}]`);
      }
    }
    for (const i of tensors) {
      if (!sameShape(at(inputs, i).shape, x.shape)) throw shapeFault(op, inputs, 'shapes that differ', 'Use equal shapes');
    }
    return x;
  };

const rowVector =
  (op: string) =>
  (params: unknown, inputs: readonly ValueType[]): ValueType => {
    const x = rowwise(op, [], [1])(params, inputs);
    return { shape: [sizeAt(x.shape, x.shape.length - 1)], dtype: x.dtype };
  };

/** Output size of one spatial dim, PyTorch's formula. */
export function conv2dOutputSize(params: Conv2dParams, axis: 0 | 1, size: number, kernel: number): number {
  const { stride, padding, dilation } = params;
  return Math.floor((size + 2 * padding[axis] - dilation[axis] * (kernel - 1) - 1) / stride[axis]) + 1;
}

function conv2dShape(params: Conv2dParams, inputs: readonly ValueType[]): ValueType {
  const x = at(inputs, 0);
  const w = at(inputs, 1);
  requireDType('conv2d', x, floats);
  const [N, C, H, W] = x.shape;
  const [O, I, R, S] = w.shape;
  if (N === undefined || C === undefined || H === undefined || W === undefined || x.shape.length !== 4) {
    throw shapeFault('conv2d', inputs, `an input of ${x.shape.length} dims`, 'Use an input of shape [N, C, H, W]');
  }
  if (O === undefined || I === undefined || R === undefined || S === undefined || w.shape.length !== 4) {
    throw shapeFault('conv2d', inputs, `a weight of ${w.shape.length} dims`, 'Use a weight of shape [O, C/groups, R, S]');
  }
  if (I * params.groups !== C || O % params.groups !== 0) {
    throw shapeFault(
      'conv2d',
      inputs,
      `${C} input channels, ${O} output channels and ${params.groups} groups`,
      `Use a weight of shape [O, ${C / params.groups}, R, S] with O divisible by ${params.groups}`,
    );
  }
  const height = conv2dOutputSize(params, 0, H, R);
  const width = conv2dOutputSize(params, 1, W, S);
  if (height < 1 || width < 1) {
    throw shapeFault('conv2d', inputs, `an output of ${height} × ${width}`, 'Use a larger input, a smaller kernel or more padding');
  }
  return { shape: [N, O, height, width], dtype: x.dtype };
}

function matmulShape(params: OpParams['matmul'], inputs: readonly ValueType[]): ValueType {
  const a = at(inputs, 0);
  const b = at(inputs, 1);
  requireDType('matmul', a, floats);
  if (a.dtype !== b.dtype) requireSame('matmul', inputs);
  if (a.shape.length < 2 || b.shape.length < 2) {
    throw shapeFault('matmul', inputs, 'an input with fewer than 2 dims', 'Use inputs of shape [.., M, K] and [.., K, N]');
  }
  const rows = sizeAt(a.shape, a.shape.length - (params.transposeA ? 1 : 2));
  const innerA = sizeAt(a.shape, a.shape.length - (params.transposeA ? 2 : 1));
  const innerB = sizeAt(b.shape, b.shape.length - (params.transposeB ? 1 : 2));
  const columns = sizeAt(b.shape, b.shape.length - (params.transposeB ? 2 : 1));
  if (innerA !== innerB) {
    throw shapeFault('matmul', inputs, `inner sizes ${innerA} and ${innerB}`, 'Make them equal; transpose an input if its dims are swapped');
  }
  const batchA = a.shape.slice(0, -2);
  const batchB = b.shape.slice(0, -2);
  const batch: number[] = [];
  const ndim = Math.max(batchA.length, batchB.length);
  for (let i = ndim; i >= 1; i--) {
    const sizeA = batchA[batchA.length - i] ?? 1;
    const sizeB = batchB[batchB.length - i] ?? 1;
    if (sizeA !== sizeB && sizeA !== 1 && sizeB !== 1) {
      throw shapeFault('matmul', inputs, `batch sizes ${sizeA} and ${sizeB}, which do not broadcast`, 'Make them equal or 1');
    }
    batch.push(sizeA === 1 ? sizeB : sizeA);
  }
  return { shape: [...batch, rows, columns], dtype: a.dtype };
}

function concatShape(params: OpParams['concat'], inputs: readonly ValueType[]): ValueType {
  const x = first(inputs);
  let size = 0;
  for (const input of inputs) {
    if (input.dtype !== x.dtype || !sameShape(withSize(input.shape, params.dim, 0), withSize(x.shape, params.dim, 0))) {
      throw shapeFault('concat', inputs, `inputs that differ outside dim ${params.dim}`, 'Use one dtype and equal sizes in all other dims');
    }
    size += sizeAt(input.shape, params.dim);
  }
  return { shape: withSize(x.shape, params.dim, size), dtype: x.dtype };
}

function requireIndices(op: string, index: ValueType): void {
  requireDType(op, index, indices);
}

const same = (_: unknown, inputs: readonly ValueType[]): ValueType => first(inputs);

/** Shape and dtype of every op's result; throws ShapeError or DTypeError. */
export const infer: { readonly [K in Op]: Infer<K> } = {
  input: () => {
    throw new TypeError('an input is made by inputNode');
  },
  detach: same,
  assign: (_, inputs) => {
    requireSame('assign', inputs);
    return first(inputs);
  },

  constant: (params) => params,
  iota: (params) => ({ shape: params.shape, dtype: 'i32' }),
  random: (params) => ({ shape: params.shape, dtype: 'i32' }),

  neg: unary('neg', numbers),
  abs: unary('abs', numbers),
  sign: unary('sign', numbers),
  exp: unary('exp', floats),
  log: unary('log', floats),
  sqrt: unary('sqrt', floats),
  sin: unary('sin', floats),
  cos: unary('cos', floats),
  tanh: unary('tanh', floats),
  erf: unary('erf', floats),
  floor: unary('floor', floats),
  ceil: unary('ceil', floats),
  logicalNot: unary('logicalNot', bools),
  cast: (params, inputs) => ({ shape: first(inputs).shape, dtype: params.dtype }),

  add: binary('add', numbers),
  sub: binary('sub', numbers),
  mul: binary('mul', numbers),
  div: binary('div', numbers),
  pow: binary('pow', floats),
  maximum: binary('maximum', numbers),
  minimum: binary('minimum', numbers),
  equal: compare('equal'),
  less: compare('less'),
  lessEqual: compare('lessEqual'),
  logicalAnd: binary('logicalAnd', bools),
  logicalOr: binary('logicalOr', bools),
  where: (_, inputs) => {
    const [condition, a, b] = [at(inputs, 0), at(inputs, 1), at(inputs, 2)];
    requireDType('where', condition, bools);
    requireSame('where', [a, b]);
    if (!sameShape(condition.shape, a.shape)) throw shapeFault('where', inputs, 'shapes that differ', 'Expand them to one shape');
    return a;
  },

  sum: (params, inputs) => {
    requireDType('sum', first(inputs), numbers);
    return { shape: without(first(inputs).shape, params.dims), dtype: first(inputs).dtype };
  },
  max: (params, inputs) => {
    const x = first(inputs);
    requireDType('max', x, numbers);
    if (params.dims.some((dim) => x.shape[dim] === 0)) {
      throw shapeFault('max', inputs, 'no element to choose from along a reduced dim', 'Use a tensor with at least one element there');
    }
    return { shape: without(x.shape, params.dims), dtype: x.dtype };
  },
  argMax: (params, inputs) => {
    const x = first(inputs);
    requireDType('argMax', x, numbers);
    if (sizeAt(x.shape, params.dim) === 0) {
      throw shapeFault('argMax', inputs, `no element along dim ${params.dim}`, 'Use a tensor with at least one element there');
    }
    return { shape: without(x.shape, [params.dim]), dtype: 'i32' };
  },
  cumsum: unary('cumsum', numbers),

  reshape: (params, inputs) => {
    const x = first(inputs);
    if (elementCount(params.shape) !== elementCount(x.shape)) {
      throw shapeFault(
        'reshape',
        inputs,
        `${elementCount(x.shape)} elements for the shape ${formatShape(params.shape)} of ${elementCount(params.shape)}`,
        'Use a shape with as many elements',
      );
    }
    return { shape: params.shape, dtype: x.dtype };
  },
  permute: (params, inputs) => {
    const { shape, dtype } = first(inputs);
    return { shape: params.order.map((dim) => sizeAt(shape, dim)), dtype };
  },
  expand: (params, inputs) => {
    const x = first(inputs);
    const fits = x.shape.length === params.shape.length && x.shape.every((size, dim) => size === 1 || size === params.shape[dim]);
    if (!fits) {
      throw shapeFault('expand', inputs, `the target shape ${formatShape(params.shape)}`, 'Only dims of size 1 expand');
    }
    return { shape: params.shape, dtype: x.dtype };
  },
  slice: (params, inputs) => {
    const x = first(inputs);
    const shape = x.shape.map((size, dim) => {
      const [start, stop, step] = [sizeAt(params.starts, dim), sizeAt(params.stops, dim), sizeAt(params.steps, dim)];
      if (start < 0 || stop > size || start > stop || step < 1) {
        throw shapeFault('slice', inputs, `elements ${start} to ${stop} by ${step} along dim ${dim} of size ${size}`, 'Stay within the dim');
      }
      return Math.ceil((stop - start) / step);
    });
    return { shape, dtype: x.dtype };
  },
  pad: (params, inputs) => {
    const x = first(inputs);
    return { shape: x.shape.map((size, dim) => sizeAt(params.before, dim) + size + sizeAt(params.after, dim)), dtype: x.dtype };
  },
  concat: concatShape,

  matmul: matmulShape,
  conv2d: conv2dShape,
  conv2dInput: (params, inputs) => ({ shape: params.inputShape, dtype: first(inputs).dtype }),
  conv2dWeight: (params, inputs) => ({ shape: params.weightShape, dtype: first(inputs).dtype }),

  gather: (params, inputs) => {
    const [x, index] = [at(inputs, 0), at(inputs, 1)];
    requireIndices('gather', index);
    const fits = x.shape.length === index.shape.length && index.shape.every((size, dim) => dim === params.dim || size <= sizeAt(x.shape, dim));
    if (!fits) throw shapeFault('gather', inputs, 'an index that does not fit', `Use an index with as many dims, and no larger off dim ${params.dim}`);
    return { shape: index.shape, dtype: x.dtype };
  },
  scatterAdd: (_, inputs) => {
    requireIndices('scatterAdd', at(inputs, 1));
    if (!sameShape(at(inputs, 1).shape, at(inputs, 2).shape)) {
      throw shapeFault('scatterAdd', inputs, 'an index and a source that differ', 'Use equal shapes');
    }
    return first(inputs);
  },
  indexSelect: (params, inputs) => {
    const [x, index] = [at(inputs, 0), at(inputs, 1)];
    requireIndices('indexSelect', index);
    if (index.shape.length !== 1) throw shapeFault('indexSelect', inputs, `an index of ${index.shape.length} dims`, 'Use an index of one dim');
    return { shape: withSize(x.shape, params.dim, sizeAt(index.shape, 0)), dtype: x.dtype };
  },
  indexAdd: (params, inputs) => {
    const [x, index, source] = [at(inputs, 0), at(inputs, 1), at(inputs, 2)];
    requireIndices('indexAdd', index);
    if (!sameShape(source.shape, withSize(x.shape, params.dim, elementCount(index.shape)))) {
      throw shapeFault('indexAdd', inputs, 'a source that does not fit', 'Use one source row per index');
    }
    return x;
  },

  sigmoid: unary('sigmoid', floats),
  relu: unary('relu', floats),
  gelu: unary('gelu', floats),
  geluGrad: binary('geluGrad', floats),
  softmax: rowwise('softmax', [], []),
  softmaxGrad: rowwise('softmaxGrad', [], [1]),
  logSoftmax: rowwise('logSoftmax', [], []),
  logSoftmaxGrad: rowwise('logSoftmaxGrad', [], [1]),
  layerNorm: rowwise('layerNorm', [1, 2], []),
  layerNormInputGrad: rowwise('layerNormInputGrad', [1], [2]),
  layerNormWeightGrad: rowVector('layerNormWeightGrad'),
  rmsNorm: rowwise('rmsNorm', [1], []),
  rmsNormInputGrad: rowwise('rmsNormInputGrad', [1], [2]),
  rmsNormWeightGrad: rowVector('rmsNormWeightGrad'),

  allReduce: same,
  allGather: (params, inputs) => {
    const { shape, dtype } = first(inputs);
    return { shape: withSize(shape, params.dim, sizeAt(shape, params.dim) * params.size), dtype };
  },
  reduceScatter: (params, inputs) => {
    const { shape, dtype } = first(inputs);
    return { shape: divided('reduceScatter', inputs, params.dim, params.size, shape), dtype };
  },
  allToAll: (params, inputs) => {
    const { shape, dtype } = first(inputs);
    const split = divided('allToAll', inputs, params.splitDim, params.size, shape);
    return { shape: withSize(split, params.concatDim, sizeAt(split, params.concatDim) * params.size), dtype };
  },
  broadcast: same,
  reduce: same,
  sendRecv: same,
  reinterpret: same,
};

function divided(op: string, inputs: readonly ValueType[], dim: number, parts: number, shape: Shape): Shape {
  const size = sizeAt(shape, dim);
  if (size % parts !== 0) {
    throw shapeFault(op, inputs, `dim ${dim} of size ${size} for ${parts} ranks`, `Pad it to a multiple of ${parts}`);
  }
  return withSize(shape, dim, size / parts);
}
