import { f32x4 } from '@shardwise/wasm-assembler';
import { normalize, normalizeGrad, normalizeWeightGrad } from '../../src/lanes/norm.ts';
import type { LoopSpec } from '../../src/lanes/loop-spec.ts';
import { withEdges } from '../../src/emit/wasm/rows/row-edges.ts';
import { floats, type RowProgram } from '../../src/lanes/rows.ts';
import { logSoftmax, logSoftmaxGrad, softmax, softmaxGrad } from '../../src/lanes/softmax.ts';

const eps = 1e-5;
const all = { residual: true, weight: true, bias: true };
const none = { residual: false, weight: false, bias: false };

/** Scales a 16-bit gradient and rounds it. The result is stored only in rounded form. */
const scaled: LoopSpec = {
  byRows: false,
  loads: [
    { dtype: 'f32', access: 'element', elementOffset: 0 },
    { dtype: 'f32', access: 'column', elementOffset: 0 },
  ],
  steps: [
    { op: 'mul', dtype: 'f32', inputDType: 'f32', inputs: [0, 1] },
    { op: 'cast', dtype: 'bf16', inputDType: 'f32', inputs: [2] },
  ],
  stores: [{ slot: 3, dtype: 'bf16' }],
};

/** Each row needs 150 values of its own. There is place for those of one row, but not of two. */
const manyOfRow: RowProgram = {
  operands: floats(2),
  write: (rows) => {
    const { fn } = rows;
    const [x, y] = [rows.address(0), rows.address(1)];
    rows.eachRow([x, y], () => {
      const [sum = fn.float(0)] = rows.fold(['sum'], (at) => [at.load(x)]);
      rows.each((at) => {
        let value = at.load(x);
        for (let part = 1; part <= 150; part++) {
          const ofRow = f32x4.mul(sum, fn.float(part / 150));
          value = fn.let(f32x4.add(f32x4.mul(value, fn.float(0.5)), ofRow));
        }
        at.store(y, value);
      });
    });
  },
};

/** All row programs on f32. */
export const rowPrograms: Readonly<Record<string, RowProgram>> = {
  softmax,
  softmaxGrad,
  logSoftmax,
  logSoftmaxGrad,
  layerNorm: normalize('layerNorm', eps),
  rmsNorm: normalize('rmsNorm', eps),
  'gradients of layerNorm': normalizeGrad('layerNorm', eps, all),
  'gradient of layerNorm': normalizeGrad('layerNorm', eps, none),
  'gradients of rmsNorm': normalizeGrad('rmsNorm', eps, all),
  'weight gradient of rmsNorm': normalizeWeightGrad('rmsNorm', eps),
  'many values of a row': manyOfRow,
};

/** Programs that read rows of 16-bit values, and programs with steps that read and store further values. */
export const rowProgramsWithEdges: Readonly<Record<string, RowProgram>> = {
  'gradient of softmax from and to 16 bits': withEdges(softmaxGrad, {
    dtypes: ['bf16', 'f16', 'f32'],
    result: 2,
    stored: 'none',
    loop: scaled,
    load: 0,
  }),
  'softmax that keeps one row and stores 16 bits': withEdges(softmax, {
    dtypes: ['f32', 'f32'],
    result: 1,
    stored: 'row',
    loop: scaled,
    load: 0,
  }),
};
