import { inputAt, valueAt } from '../../program/instruction.ts';
import { type BlockPlanning, operandOf } from './product-of.ts';

/** Describes a product with a weight in blocks, which no other code computes. */
export const blockedProductOf: BlockPlanning = (instruction, values, flow) => {
  const [x, weight] = [inputAt(instruction, 0), inputAt(instruction, 1)];
  if (valueAt(values, x).dtype !== 'f32') return undefined;
  const left = operandOf(x, values, flow, 0, false);
  const bytes = flow.root(weight);
  if (left === undefined || bytes === undefined) return undefined;
  const [rows = 1, depth = 1] = valueAt(values, x).shape;
  const [columns = 1, rowBytes = 1] = valueAt(values, weight).shape;
  return {
    kind: 'f32 to f32',
    batch: [],
    rows,
    columns,
    depth,
    left,
    right: {
      value: bytes,
      batchStrides: [],
      rowStride: 1,
      columnStride: rowBytes,
      packing: instruction.params.format.name,
    },
    result: instruction.output,
    scale: 1,
    addend: null,
    rounds: false,
  };
};
