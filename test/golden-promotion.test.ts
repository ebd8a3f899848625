import { readFileSync } from 'node:fs';
import { cpu } from '@shardwise/backend-cpu';
import {
  DTypeError,
  fromData,
  full,
  setRank,
  type DType,
  type Operand,
  Tensor,
} from '@shardwise/core';
import { dtypes } from '@shardwise/core/spec';
import { interpreter } from '@shardwise/testing';
import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';

const lines = z.record(z.string(), z.array(z.string()));
const elements = z.record(z.string(), z.array(z.number()));

/** The values that tools/golden-promotion.py recorded. */
const golden = z
  .object({
    torch: z.string(),
    operands: z.array(z.string()),
    left: elements,
    right: elements,
    dtypes: lines,
    values: lines,
  })
  .parse(JSON.parse(readFileSync(new URL('./golden/promotion.json', import.meta.url), 'utf8')));

type Operation = (a: Tensor, b: Operand) => Tensor;

function tensorOf(b: Operand): Tensor {
  if (b instanceof Tensor) return b;
  throw new TypeError('no tensor');
}

const condition = [1, 0, 1, 0];

const operations: Readonly<Record<string, Operation>> = {
  add: (a, b) => a.add(b),
  sub: (a, b) => a.sub(b),
  mul: (a, b) => a.mul(b),
  div: (a, b) => a.div(b),
  divTrunc: (a, b) => a.div(b, { roundingMode: 'trunc' }),
  divFloor: (a, b) => a.div(b, { roundingMode: 'floor' }),
  pow: (a, b) => a.pow(b),
  maximum: (a, b) => a.maximum(b),
  minimum: (a, b) => a.minimum(b),
  eq: (a, b) => a.eq(b),
  ne: (a, b) => a.ne(b),
  lt: (a, b) => a.lt(b),
  le: (a, b) => a.le(b),
  gt: (a, b) => a.gt(b),
  ge: (a, b) => a.ge(b),
  where: (a, b) => values('bool', condition.slice(0, Math.max(a.numel, 1))).where(a, b),
  logicalAnd: (a, b) => a.logicalAnd(tensorOf(b)),
  logicalOr: (a, b) => a.logicalOr(tensorOf(b)),
};

function isDType(name: string): name is DType {
  return name in dtypes;
}

function dtypeOf(name: string): DType {
  const dtype = name.replace(/0$/, '');
  if (isDType(dtype)) return dtype;
  throw new TypeError(`${name} is no dtype`);
}

function operand(name: string): Operand {
  if (/^[\d.]+$/.test(name)) return Number(name);
  return full(name.endsWith('0') ? [] : [1], 1, dtypeOf(name));
}

/** Returns elements of any dtype. They are converted from a dtype that typed arrays have. */
function values(dtype: DType, numbers: readonly number[]): Tensor {
  const isWhole = dtype === 'i32' || dtype === 'u8' || dtype === 'bool';
  const data = isWhole ? Int32Array.from(numbers) : Float32Array.from(numbers);
  return fromData(data, [numbers.length], isWhole ? 'i32' : 'f32').to(dtype);
}

function operationOf(name: string): Operation {
  const operation = operations[name];
  if (operation === undefined) throw new TypeError(`no operation ${name}`);
  return operation;
}

/** The operations that accept i64. Here i64 is stored and moved, but not used for arithmetic. */
const takesLong: ReadonlySet<string> = new Set(['div', 'where', 'logicalAnd', 'logicalOr']);

/**
 * Returns the dtype that we give. PyTorch's int64 from bools and integers is i32 here, and arithmetic in i64 is
 * refused.
 */
function expectedDType(name: string, found: string, promoted: string, pair: string): string {
  if (found === '-' || promoted !== 'i64') return found;
  if (!pair.includes('i64')) return found === 'i64' ? 'i32' : found;
  return takesLong.has(name) ? found : '-';
}

/** Returns the dtype of the result, or `-` if the operation is refused. */
function dtypeFound(name: string, left: string, right: string): string {
  const a = tensorOf(operand(left));
  try {
    return operationOf(name)(a, operand(right)).dtype;
  } catch (error) {
    if (error instanceof DTypeError || error instanceof TypeError) return '-';
    throw error;
  }
}

describe('dtypes of binary operations are those of PyTorch', () => {
  beforeAll(() => setRank({ device: interpreter() }));

  it.each(Object.keys(operations))('%s, of every pair of operands', (name) => {
    const tensors = golden.operands.filter((operand) => isDType(operand.replace(/0$/, '')));
    const found = tensors.map((left) =>
      golden.operands.map((right) => `${left} ${right} ${dtypeFound(name, left, right)}`),
    );
    const expected = tensors.map((left, row) => {
      const results = golden.dtypes[name]?.[row]?.split(' ') ?? [];
      const promoted = golden.dtypes['resultType']?.[row]?.split(' ') ?? [];
      return golden.operands.map((right, column) => {
        const pair = `${left} ${right}`;
        return `${pair} ${expectedDType(name, results[column] ?? '', promoted[column] ?? '', pair)}`;
      });
    });
    expect(found).toEqual(expected);
  });
});

/** The tolerance of one unit in the last place, because libraries differ in the last bits of powers. */
const powTolerance: Readonly<Partial<Record<DType, number>>> = {
  f32: 2e-6,
  f16: 2 ** -10,
  bf16: 2 ** -7,
};

function isClose(found: number, expected: number, rtol: number): boolean {
  return (
    Object.is(found, expected) ||
    found === expected ||
    Math.abs(found - expected) <= rtol * Math.abs(expected)
  );
}

describe.each([
  ['the CPU backend', () => cpu()],
  ['the interpreter', () => Promise.resolve(interpreter())],
] as const)('values of binary operations on %s are those of PyTorch', (_, make) => {
  beforeAll(async () => setRank({ device: await make() }));

  it.each(Object.keys(golden.values))('%s', async (name) => {
    for (const line of golden.values[name] ?? []) {
      const [left = '', right = '', ...results] = line.split(' ');
      const a = values(dtypeOf(left), golden.left[left] ?? []);
      const b =
        right in golden.right ? values(dtypeOf(right), golden.right[right] ?? []) : operand(right);
      const y = operationOf(name)(a, b);
      const isFloat = dtypes[y.dtype].kind === 'float';
      const found = Array.from(await (isFloat ? y.to('f32') : y).data(), Number);
      const expected = results.map((text) => Number(text.replace('inf', 'Infinity')));
      const rtol = name === 'pow' ? powTolerance[y.dtype] : isFloat ? 1e-6 : 0;
      const differs = expected.some((value, i) => !isClose(found[i] ?? 0, value, rtol ?? 0));
      if (differs) expect.fail(`${name} ${line}, and not ${found.join(' ')}`);
    }
    expect(golden.values[name]?.length).toBeGreaterThan(0);
  });
});
