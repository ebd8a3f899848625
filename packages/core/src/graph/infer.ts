import { elementCount, formatShape, sameShape, sizeAt } from '../base/shape.ts';
import type { ValueType } from '../spec/dtype.ts';
import type { Op, OpParams } from '../spec/op.ts';
import {
  at,
  binary,
  bools,
  compare,
  divided,
  first,
  floats,
  numbers,
  requireDType,
  requireSame,
  requireSameDType,
  requireSizes,
  rowVector,
  rowwise,
  shapeFault,
  unary,
  without,
  withSize,
} from './infer-checks.ts';
import { attentionGradShape, attentionLogSumExpShape, attentionShape } from './infer-attention.ts';
import { conv2dShape, matmulShape } from './infer-contract.ts';
import { groupedMatmulShape, groupedMatmulWeightShape } from './infer-grouped.ts';
import { requireAddend, requireElementIndices, requireRowIndices } from './infer-indices.ts';
import { requireElement } from './require-element.ts';
import { hasUnknownRows, unknownFault } from './row-counts.ts';

type Infer<K extends Op> = (params: OpParams[K], inputs: readonly ValueType[]) => ValueType;

function concatShape(params: OpParams['concat'], inputs: readonly ValueType[]): ValueType {
  const x = first(inputs);
  if (params.dim === 0 && inputs.some(({ shape }) => hasUnknownRows(shape))) {
    throw unknownFault('concat', inputs, 'rows would come to stand behind them');
  }
  let size = 0;
  for (const input of inputs) {
    requireSameDType('concat', [x, input]);
    if (!sameShape(withSize(input.shape, params.dim, 0), withSize(x.shape, params.dim, 0))) {
      throw shapeFault(
        'concat',
        inputs,
        `inputs that differ outside dim ${params.dim}`,
        'Use equal sizes in all other dims',
      );
    }
    size += sizeAt(input.shape, params.dim);
  }
  return { shape: withSize(x.shape, params.dim, size), dtype: x.dtype };
}

const same = (_: unknown, inputs: readonly ValueType[]): ValueType => first(inputs);

/** Inputs and distributed nodes are made with their types. */
const notInferred = (): never => {
  throw new TypeError('a leaf');
};

/** Infers the shape and dtype of each op's result. Throws ShapeError or DTypeError. */
export const infer: { readonly [K in Op]: Infer<K> } = {
  input: notInferred,
  distributed: notInferred,
  detach: same,
  ownGradient: same,
  assign: (_, inputs) => {
    requireSame('assign', inputs);
    return first(inputs);
  },

  takeRows: (_, inputs) => {
    const [x, count] = [at(inputs, 0), at(inputs, 1)];
    if (count.dtype !== 'i32' || count.shape.length > 0 || x.shape.length === 0) {
      throw shapeFault(
        'takeRows',
        inputs,
        `a count ${count.dtype} of shape ${formatShape(count.shape)}`,
        'Give rows, and their number as an i32 tensor without dims',
      );
    }
    if (hasUnknownRows(x.shape))
      throw unknownFault('takeRows', inputs, 'some of them would be taken');
    return { shape: withSize(x.shape, 0, Number.NaN), dtype: x.dtype };
  },
  fillRows: ({ rows }, inputs) => {
    const x = first(inputs);
    requireSizes('fillRows', [rows]);
    requireDType('fillRows', x, numbers);
    if (!hasUnknownRows(x.shape)) {
      throw shapeFault('fillRows', inputs, 'rows of a known number', 'Use pad()');
    }
    return { shape: withSize(x.shape, 0, rows), dtype: x.dtype };
  },

  constant: (params) => {
    requireSizes('a tensor', params.shape);
    requireElement(params.dtype, params.value);
    return params;
  },
  iota: ({ shape }) => {
    requireSizes('indices', shape);
    return { shape, dtype: 'i32' };
  },
  random: ({ shape }) => {
    requireSizes('random bits', shape);
    return { shape, dtype: 'i32' };
  },

  neg: unary('neg', numbers),
  abs: unary('abs', numbers),
  sign: unary('sign', numbers),
  exp: unary('exp', floats),
  log: unary('log', floats),
  sqrt: unary('sqrt', floats),
  sin: unary('sin', floats),
  cos: unary('cos', floats),
  atan: unary('atan', floats),
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
  pow: binary('pow', numbers),
  maximum: binary('maximum', numbers),
  minimum: binary('minimum', numbers),
  fmod: binary('fmod', floats),
  equal: compare('equal'),
  less: compare('less'),
  lessEqual: compare('lessEqual'),
  logicalAnd: binary('logicalAnd', bools),
  logicalOr: binary('logicalOr', bools),
  where: (_, inputs) => {
    const [condition, a, b] = [at(inputs, 0), at(inputs, 1), at(inputs, 2)];
    requireDType('where', condition, bools);
    requireSame('where', [a, b]);
    if (!sameShape(condition.shape, a.shape))
      throw shapeFault('where', inputs, 'shapes that differ', 'Expand them to one shape');
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
      throw shapeFault(
        'max',
        inputs,
        'no element to choose from along a reduced dim',
        'Use a tensor with at least one element there',
      );
    }
    return { shape: without(x.shape, params.dims), dtype: x.dtype };
  },
  argMax: (params, inputs) => {
    const x = first(inputs);
    requireDType('argMax', x, numbers);
    if (sizeAt(x.shape, params.dim) === 0) {
      throw shapeFault(
        'argMax',
        inputs,
        `no element along dim ${params.dim}`,
        'Use a tensor with at least one element there',
      );
    }
    return { shape: without(x.shape, [params.dim]), dtype: 'i32' };
  },
  argSort: (_, inputs) => {
    const x = first(inputs);
    requireDType('argSort', x, numbers);
    return { shape: x.shape, dtype: 'i32' };
  },
  cumsum: unary('cumsum', numbers),

  reshape: (params, inputs) => {
    const x = first(inputs);
    requireSizes('reshape', params.shape);
    if (hasUnknownRows(params.shape) && hasUnknownRows(x.shape)) {
      if (elementCount(params.shape.slice(1)) === elementCount(x.shape.slice(1))) {
        return { shape: params.shape, dtype: x.dtype };
      }
    }
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
    requireSizes('expand', params.shape);
    const fits =
      x.shape.length === params.shape.length &&
      x.shape.every((size, dim) => size === 1 || Object.is(size, params.shape[dim]));
    if (!fits) {
      throw shapeFault(
        'expand',
        inputs,
        `the target shape ${formatShape(params.shape)}`,
        'Only dims of size 1 expand',
      );
    }
    return { shape: params.shape, dtype: x.dtype };
  },
  slice: (params, inputs) => {
    const x = first(inputs);
    const shape = x.shape.map((size, dim) => {
      const [start, stop, step] = [
        sizeAt(params.starts, dim),
        sizeAt(params.stops, dim),
        sizeAt(params.steps, dim),
      ];
      if (Number.isNaN(size) && start === 0 && Number.isNaN(stop) && step === 1) return size;
      if (
        Number.isNaN(size) ||
        ![start, stop, step].every(Number.isInteger) ||
        start < 0 ||
        stop > size ||
        start > stop ||
        step < 1
      ) {
        throw shapeFault(
          'slice',
          inputs,
          `elements ${start} to ${stop} by ${step} along dim ${dim} of size ${size}`,
          'Stay within the dim',
        );
      }
      return Math.ceil((stop - start) / step);
    });
    return { shape, dtype: x.dtype };
  },
  pad: (params, inputs) => {
    const x = first(inputs);
    const widths = [...params.before, ...params.after];
    requireSizes('padding', widths);
    if (widths.length !== 2 * x.shape.length) {
      throw shapeFault(
        'pad',
        inputs,
        `padding of ${params.before.length} and ${params.after.length} dims`,
        'Give each dim a number before and one after',
      );
    }
    requireElement(x.dtype, params.value);
    if (hasUnknownRows(x.shape) && (params.before[0] !== 0 || params.after[0] !== 0)) {
      throw unknownFault('pad', inputs, 'rows would come to stand before or behind them');
    }
    return {
      shape: x.shape.map(
        (size, dim) => sizeAt(params.before, dim) + size + sizeAt(params.after, dim),
      ),
      dtype: x.dtype,
    };
  },
  concat: concatShape,

  matmul: matmulShape,
  conv2d: conv2dShape,
  conv2dInput: (params, inputs) => ({ shape: params.inputShape, dtype: first(inputs).dtype }),
  conv2dWeight: (params, inputs) => ({ shape: params.weightShape, dtype: first(inputs).dtype }),

  gather: ({ dim }, inputs) => {
    requireElementIndices('gather', dim, inputs);
    return { shape: at(inputs, 1).shape, dtype: at(inputs, 0).dtype };
  },
  scatterAdd: ({ dim }, inputs) => {
    const [x, index, source] = [at(inputs, 0), at(inputs, 1), at(inputs, 2)];
    requireElementIndices('scatterAdd', dim, inputs);
    requireAddend('scatterAdd', x, source);
    if (!sameShape(index.shape, source.shape)) {
      throw shapeFault(
        'scatterAdd',
        inputs,
        'an index and a source that differ',
        'Use equal shapes',
      );
    }
    return x;
  },
  scatter: ({ dim }, inputs) => {
    const [x, index, source] = [at(inputs, 0), at(inputs, 1), at(inputs, 2)];
    requireElementIndices('scatter', dim, inputs);
    requireSameDType('scatter', [x, source]);
    if (!sameShape(index.shape, source.shape)) {
      throw shapeFault('scatter', inputs, 'an index and a source that differ', 'Use equal shapes');
    }
    return x;
  },
  indexSelect: ({ dim }, inputs) => {
    const [x, index] = [at(inputs, 0), at(inputs, 1)];
    requireRowIndices('indexSelect', dim, inputs);
    return { shape: withSize(x.shape, dim, sizeAt(index.shape, 0)), dtype: x.dtype };
  },
  indexAdd: ({ dim }, inputs) => {
    const [x, index, source] = [at(inputs, 0), at(inputs, 1), at(inputs, 2)];
    requireRowIndices('indexAdd', dim, inputs);
    requireAddend('indexAdd', x, source);
    if (!sameShape(source.shape, withSize(x.shape, dim, elementCount(index.shape)))) {
      throw shapeFault(
        'indexAdd',
        inputs,
        'a source that does not fit',
        'Use one source row per index',
      );
    }
    return x;
  },

  sigmoid: unary('sigmoid', floats),
  relu: unary('relu', floats),
  silu: unary('silu', floats),
  softplus: unary('softplus', floats),
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
  groupedMatmul: groupedMatmulShape,
  groupedMatmulWeight: groupedMatmulWeightShape,
  attention: attentionShape,
  attentionLogSumExp: attentionLogSumExpShape,
  attentionQueryGrad: attentionGradShape('attentionQueryGrad', 0),
  attentionKeyGrad: attentionGradShape('attentionKeyGrad', 1),
  attentionValueGrad: attentionGradShape('attentionValueGrad', 2),

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
    return {
      shape: withSize(split, params.concatDim, sizeAt(split, params.concatDim) * params.size),
      dtype,
    };
  },
  allToAllRows: ({ shape, size }, inputs) => {
    const [x, sent, received] = [at(inputs, 0), at(inputs, 1), at(inputs, 2)];
    requireSizes('allToAllRows', shape);
    for (const counts of [sent, received]) {
      if (counts.dtype !== 'i32' || !sameShape(counts.shape, [size])) {
        throw shapeFault(
          'allToAllRows',
          inputs,
          `counts ${counts.dtype} of shape ${formatShape(counts.shape)}`,
          `Use counts i32 of shape [${size}], one for each rank`,
        );
      }
    }
    if (x.shape.length === 0 || !sameShape(shape.slice(1), x.shape.slice(1))) {
      throw shapeFault(
        'allToAllRows',
        inputs,
        `rows of shape ${formatShape(shape.slice(1))}`,
        'Use rows of one shape',
      );
    }
    return { shape, dtype: x.dtype };
  },
  broadcast: same,
  reduce: same,
  sendRecv: same,
  localChunk: (params, inputs) => {
    const { shape, dtype } = first(inputs);
    return { shape: divided('localChunk', inputs, params.dim, params.size, shape), dtype };
  },
  reinterpret: same,

  pageOut: same,
  pageIn: same,
  refresh: same,
};
