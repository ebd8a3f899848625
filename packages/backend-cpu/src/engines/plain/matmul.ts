import { elementCount } from '@shardwise/core/base';
import { inputAt } from '../../program/instruction.ts';
import type { LinkLoop } from './run-loop.ts';
import { viewAt } from './view-at.ts';

/** Computes products of i32, which wrap around. */
export const linkMatmul: LinkLoop<'matmul'> = ({ memory }, instruction, inputs) => {
  const { transposeA, transposeB } = instruction.params;
  const [a = [], b = []] = inputs.map(({ shape }) => shape);
  const [rows = 1, columns = 1] = instruction.shape.slice(-2);
  const depth = a.at(transposeA ? -2 : -1) ?? 1;
  const [rowA, termA] = transposeA ? [1, rows] : [depth, 1];
  const [termB, columnB] = transposeB ? [1, depth] : [columns, 1];
  const batch = instruction.shape.slice(0, -2);
  const matrices = elementCount(batch);
  return (addressOf) => {
    const left = viewAt(memory, 'i32', addressOf(inputAt(instruction, 0)), elementCount(a));
    const right = viewAt(memory, 'i32', addressOf(inputAt(instruction, 1)), elementCount(b));
    const to = viewAt(
      memory,
      'i32',
      addressOf(instruction.output),
      elementCount(instruction.shape),
    );
    for (let matrix = 0; matrix < matrices; matrix++) {
      const fromA = matrixOf(a, batch, matrix) * rows * depth;
      const fromB = matrixOf(b, batch, matrix) * depth * columns;
      for (let row = 0; row < rows; row++) {
        for (let column = 0; column < columns; column++) {
          let sum = 0;
          for (let term = 0; term < depth; term++) {
            const x = left[fromA + row * rowA + term * termA] ?? 0;
            const y = right[fromB + term * termB + column * columnB] ?? 0;
            sum = (sum + Math.imul(x, y)) | 0;
          }
          to[(matrix * rows + row) * columns + column] = sum;
        }
      }
    }
  };
};

/** The index of the operand's matrix that belongs to a matrix of the batch. Dims of size 1 broadcast. */
function matrixOf(shape: readonly number[], batch: readonly number[], matrix: number): number {
  const own = shape.slice(0, -2);
  let [rest, stride, place] = [matrix, 1, 0];
  for (let dim = 1; dim <= batch.length; dim++) {
    const size = batch.at(-dim) ?? 1;
    const kept = own.at(-dim) ?? 1;
    if (kept !== 1) place += (rest % size) * stride;
    stride *= kept;
    rest = Math.floor(rest / size);
  }
  return place;
}
