import { sizeAt } from '../base/shape.ts';
import type { ValueType } from '../spec/dtype.ts';
import type { Conv2dParams, OpParams } from '../spec/op.ts';
import { at, floats, requireDType, requireSameDType, shapeFault } from './infer-checks.ts';

/** The output size of one spatial dim, by PyTorch's formula. */
export function conv2dOutputSize(
  params: Conv2dParams,
  axis: 0 | 1,
  size: number,
  kernel: number,
): number {
  const { stride, padding, dilation } = params;
  return (
    Math.floor((size + 2 * padding[axis] - dilation[axis] * (kernel - 1) - 1) / stride[axis]) + 1
  );
}

export function conv2dShape(params: OpParams['conv2d'], inputs: readonly ValueType[]): ValueType {
  const x = at(inputs, 0);
  const w = at(inputs, 1);
  requireDType('conv2d', x, floats);
  requireSameDType('conv2d', inputs);
  const [N, C, H, W] = x.shape;
  const [O, I, R, S] = w.shape;
  if (
    N === undefined ||
    C === undefined ||
    H === undefined ||
    W === undefined ||
    x.shape.length !== 4
  ) {
    throw shapeFault(
      'conv2d',
      inputs,
      `an input of ${x.shape.length} dims`,
      'Use an input of shape [N, C, H, W]',
    );
  }
  if (
    O === undefined ||
    I === undefined ||
    R === undefined ||
    S === undefined ||
    w.shape.length !== 4
  ) {
    throw shapeFault(
      'conv2d',
      inputs,
      `a weight of ${w.shape.length} dims`,
      'Use a weight of shape [O, C/groups, R, S]',
    );
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
    throw shapeFault(
      'conv2d',
      inputs,
      `a kernel of ${params.dilation[0] * (R - 1) + 1} × ${params.dilation[1] * (S - 1) + 1} on an input of ${H} × ${W} with padding ${params.padding.join(' × ')}`,
      'Use a larger input, a smaller kernel or more padding',
    );
  }
  return { shape: [N, O, height, width], dtype: params.sums ?? x.dtype };
}

export function matmulShape(params: OpParams['matmul'], inputs: readonly ValueType[]): ValueType {
  const a = at(inputs, 0);
  const b = at(inputs, 1);
  requireDType('matmul', a, floats);
  requireSameDType('matmul', inputs);
  if (a.shape.length < 2 || b.shape.length < 2) {
    throw shapeFault(
      'matmul',
      inputs,
      'an input with fewer than 2 dims',
      'Use inputs of shape [.., M, K] and [.., K, N]',
    );
  }
  const rows = sizeAt(a.shape, a.shape.length - (params.transposeA ? 1 : 2));
  const innerA = sizeAt(a.shape, a.shape.length - (params.transposeA ? 2 : 1));
  const innerB = sizeAt(b.shape, b.shape.length - (params.transposeB ? 1 : 2));
  const columns = sizeAt(b.shape, b.shape.length - (params.transposeB ? 2 : 1));
  if (!Object.is(innerA, innerB)) {
    throw shapeFault(
      'matmul',
      inputs,
      `inner sizes ${innerA} and ${innerB}`,
      'Make them equal; transpose an input if its dims are swapped',
    );
  }
  const batchA = a.shape.slice(0, -2);
  const batchB = b.shape.slice(0, -2);
  const batch: number[] = [];
  const ndim = Math.max(batchA.length, batchB.length);
  for (let i = ndim; i >= 1; i--) {
    const sizeA = batchA[batchA.length - i] ?? 1;
    const sizeB = batchB[batchB.length - i] ?? 1;
    if (sizeA !== sizeB && sizeA !== 1 && sizeB !== 1) {
      throw shapeFault(
        'matmul',
        inputs,
        `batch sizes ${sizeA} and ${sizeB}, which do not broadcast`,
        'Make them equal or 1',
      );
    }
    batch.push(sizeA === 1 ? sizeB : sizeA);
  }
  return { shape: [...batch, rows, columns], dtype: params.sums ?? a.dtype };
}
