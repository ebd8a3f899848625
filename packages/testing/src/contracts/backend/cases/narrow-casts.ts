import type { DType } from '@shardwise/core/spec';
import type { NdArray } from '../../../interpreter/nd-array.ts';
import { bool, f32, hostValue, i32 } from '../host-value.ts';
import { SHAPES, label } from '../op-case.ts';
import type { OpCase } from '../op-case.ts';

const { NaN: nan, POSITIVE_INFINITY: inf } = Number;

/** Makes cases of casts to and from the dtypes that are only stored and sent, and not computed with. */
export function narrowCastCases(
  convert: (title: string, x: NdArray, expected: NdArray) => OpCase,
): OpCase[] {
  const to = (dtype: DType, elements: readonly number[]): NdArray =>
    hostValue([elements.length], dtype, elements);
  const row = (elements: readonly number[]): NdArray => f32([elements.length], elements);
  const [halfPlace, place] = [2 ** -11, 2 ** -10];
  const halves = [
    // These are ties, which round to even, and values just beside ties.
    [1 + halfPlace, 1],
    [1 + 3 * halfPlace, 1 + 2 * place],
    [1 + halfPlace + 2 ** -20, 1 + place],
    [-1 - halfPlace, -1],
    // These are the largest finite value, and values that round beyond it.
    [65_504, 65_504],
    [65_519, 65_504],
    [65_520, inf],
    [-1e30, -inf],
    // These are subnormal numbers, which are multiples of 2^-24.
    [2 ** -14, 2 ** -14],
    [2 ** -24, 2 ** -24],
    [2 ** -25, 0],
    [2 ** -25 * 1.01, 2 ** -24],
    [3 * 2 ** -25, 2 ** -23],
    [-(2 ** -26), -0],
    [2 ** -14 - 2 ** -26, 2 ** -14],
    [0, 0],
    [-0, -0],
    [inf, inf],
    [nan, nan],
  ] as const;
  const brains = [
    [1 + 2 ** -8, 1],
    [1 + 3 * 2 ** -8, 1 + 2 ** -6],
    [1 + 2 ** -8 + 2 ** -20, 1 + 2 ** -7],
    [-1 - 2 ** -8, -1],
    [3.4e38, inf],
    [3.38e38, 254 * 2 ** 120],
    [2 ** -133, 2 ** -133],
    [2 ** -134, 0],
    [2 ** -134 * 1.5, 2 ** -133],
    [0, 0],
    [-0, -0],
    [-inf, -inf],
    [nan, nan],
  ] as const;
  const [every16, bytes] = [1024, Array.from({ length: 256 }, (_, i) => i)];
  const evenly = (elements: (i: number) => number): number[] =>
    Array.from({ length: every16 }, (_, i) => elements(i));
  return [
    convert(
      'f32 to f16 rounds to nearest, ties to even',
      row(halves.map(([x]) => x)),
      to(
        'f16',
        halves.map(([, y]) => y),
      ),
    ),
    convert(
      'f32 to bf16 rounds to nearest, ties to even',
      row(brains.map(([x]) => x)),
      to(
        'bf16',
        brains.map(([, y]) => y),
      ),
    ),
    convert(
      'f16 to f32',
      to(
        'f16',
        halves.map(([, y]) => y),
      ),
      row(halves.map(([, y]) => y)),
    ),
    convert(
      'bf16 to f32',
      to(
        'bf16',
        brains.map(([, y]) => y),
      ),
      row(brains.map(([, y]) => y)),
    ),
    convert(
      'subnormal f16 to f32',
      to(
        'f16',
        evenly((i) => i * 2 ** -24),
      ),
      row(evenly((i) => i * 2 ** -24)),
    ),
    convert('f16 to bf16', to('f16', [1 + place, 65_504]), to('bf16', [1, 65_536])),
    convert('bf16 to i32', to('bf16', [1.5, -300]), i32([2], [1, -300])),
    convert('i32 to f16', i32([3], [2049, -7, 70_000]), to('f16', [2048, -7, inf])),
    convert('bool to bf16', bool([2], [0, 1]), to('bf16', [0, 1])),
    convert('f16 to bool is != 0', to('f16', [0, -0, 2 ** -24]), bool([3], [0, 0, 1])),
    convert('u8 to i32', to('u8', bytes), i32([256], bytes)),
    convert('u8 to f32', to('u8', bytes), row(bytes)),
    convert('i32 to u8', i32([256], bytes), to('u8', bytes)),
    convert('f32 to u8 truncates', row([0.9, 254.5, 255]), to('u8', [0, 254, 255])),
    ...(['f16', 'bf16', 'u8'] as const).flatMap((dtype) =>
      SHAPES.flatMap((shape) => [
        convert(`f32 ${label(shape)} to ${dtype}`, f32(shape, 2.5), hostValue(shape, dtype, 2.5)),
        convert(`${dtype} ${label(shape)} to f32`, hostValue(shape, dtype, 3), f32(shape, 3)),
      ]),
    ),
  ];
}
