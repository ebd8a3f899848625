import { fromData, LayoutError, noGrad, type ProcessGroup, type Tensor } from '@shardwise/core';
import { withoutValues } from '@shardwise/core/extend';
import { onRanks, type RankInThread } from '@shardwise/testing/node';
import { expect, test } from 'vitest';
import {
  build,
  collectives,
  drawing,
  local,
  makeLeaf,
  mutated,
  type Program,
  randomProgram,
  runStep,
  shape,
  type Step,
} from './ranks/axis-type-programs.ts';

interface AxisTypesTask {
  readonly seeds: readonly number[];
  /** Whether leaves declare their types. */
  readonly declares: boolean;
}

/** The results for the programs. */
interface Findings {
  programs: number;
  /** The number of times that each op was taken in random programs. `refused` counts how often it was refused. */
  readonly taken: Record<string, number>;
  readonly refused: Record<string, number>;
  mutants: number;
  acceptedMutants: number;
  gradients: number;
  /** Values that do not match their type. */
  readonly wrongValues: string[];
  readonly wrongGradients: string[];
}

const count = shape[0] * shape[1];

async function findOnRank(
  { group }: RankInThread,
  { seeds, declares }: AxisTypesTask,
): Promise<Findings> {
  const findings: Findings = {
    programs: 0,
    taken: {},
    refused: {},
    mutants: 0,
    acceptedMutants: 0,
    gradients: 0,
    wrongValues: [],
    wrongGradients: [],
  };
  const bump = (table: Record<string, number>, op: string): void => {
    table[op] = (table[op] ?? 0) + 1;
  };
  for (const seed of seeds) {
    const draw = drawing(seed);
    const program = randomProgram(draw, declares, (op) => bump(findings.refused, op));
    for (const { op } of program.steps) bump(findings.taken, op);
    findings.programs++;
    await examine(program, seed, { group, declares, findings });
    const mutant = mutated(program, draw);
    if (mutant === null) continue;
    findings.mutants++;
    const accepted = await examine(mutant, seed, { group, declares, findings });
    if (accepted) findings.acceptedMutants++;
  }
  return findings;
}

interface Examination {
  readonly group: ProcessGroup;
  readonly declares: boolean;
  readonly findings: Findings;
}

/** Returns whether the program is accepted. If it is, its values and gradients are compared with the expected ones. */
async function examine(
  program: Program,
  seed: number,
  { group, declares, findings }: Examination,
): Promise<boolean> {
  const leavesAt = (step: number): Tensor[] =>
    program.leaves.map((leaf, index) => {
      const isSame = leaf.type === 'replicate' || leaf.type === 'invariant';
      const own = seed * 100 + index * 10 + (isSame ? 0 : 1 + group.rank);
      const [base, direction] = [elements(own), elements(own + 5_000_000)];
      const moved = base.map(
        (value, at) => value + (leaf.trains ? step : 0) * (direction[at] ?? 0),
      );
      return makeLeaf(moved, leaf, declares);
    });
  const leaves = leavesAt(0);
  const values = build(program, leaves);
  if (values === null) return false;
  const name = `program ${seed}: ${describe(program)}`;
  const wrong = await wrongValues(program, values, { group, declares });
  findings.wrongValues.push(...wrong.map((each) => `${each} of ${name}`));

  const loss = withoutValues(() => lossOf(values, seed));
  if (!loss.requiresGrad) return true;
  const isShared = typeOf(loss) === 'invariant';
  try {
    loss.backward();
  } catch (error) {
    if (!(error instanceof LayoutError)) throw error;
    findings.wrongGradients.push(`${error.message} of ${name}`);
    return true;
  }
  const globalLoss = async (step: number): Promise<number> => {
    const moved = noGrad(() => build(program, leavesAt(step)));
    if (moved === null) throw new RangeError('a program is accepted outside of gradients, too');
    const mine = await noGrad(() => lossOf(moved, seed)).item();
    const total = await sumOverRanks(mine, group);
    return isShared ? total / group.size : total;
  };
  const step = 1e-5;
  const numeric = ((await globalLoss(step)) - (await globalLoss(-step))) / (2 * step);
  let analytic = 0;
  for (const [index, leaf] of leaves.entries()) {
    const spec = program.leaves[index];
    if (leaf.grad === null || spec === undefined) continue;
    const isSame = spec.type === 'replicate' || spec.type === 'invariant';
    const direction = elements(seed * 100 + index * 10 + (isSame ? 0 : 1 + group.rank) + 5_000_000);
    const gradient = Array.from(await leaf.grad.data(), Number);
    const mine = gradient.reduce((sum, value, at) => sum + value * (direction[at] ?? 0), 0);
    const total = await sumOverRanks(mine, group);
    // An invariant leaf has the whole gradient on every rank. The gradients of other leaves are terms of a sum.
    analytic += spec.type === 'invariant' ? total / group.size : total;
  }
  findings.gradients++;
  if (!(Math.abs(analytic - numeric) <= 1e-5 * Math.max(1, Math.abs(numeric)))) {
    findings.wrongGradients.push(`${analytic} instead of ${numeric} of ${name}`);
  }
  return true;
}

function typeOf(x: Tensor | undefined): string {
  return x?.node.axisTypes?.on('dp') ?? 'unset';
}

/**
 * A loss of the last value with the same weights on all ranks. If the value is an unfinished sum, the loss is linear in
 * it. Shape: [].
 */
function lossOf(values: readonly Tensor[], seed: number): Tensor {
  const last = values.at(-1);
  if (last === undefined) throw new RangeError('a program has values');
  const weights = makeLeaf(elements(seed), { type: 'replicate', trains: false }, true);
  const weighted = last.mul(weights);
  const isSummed = typeOf(last) !== 'partial';
  return (isSummed ? weighted.add(last.mul(last).mul(0.3)) : weighted).sum();
}

/**
 * Returns values that should be the same on all ranks and are not, and partial sums whose terms do not add up to the
 * right value.
 */
async function wrongValues(
  { steps, leaves }: Program,
  values: readonly Tensor[],
  { group, declares }: Pick<Examination, 'group' | 'declares'>,
): Promise<string[]> {
  const wrong: string[] = [];
  /** The elements of each value on all ranks. */
  const all: (readonly Float64Array[])[] = [];
  for (const value of values) {
    all.push(await gather(Float64Array.from(await value.data(), Number), group));
  }
  for (const [number, value] of values.entries()) {
    const type = typeOf(value);
    const [first = new Float64Array(0), ...others] = all[number] ?? [];
    const isSame = others.every((other) => first.every((element, at) => element === other[at]));
    if ((type === 'replicate' || type === 'invariant') && !isSame) wrong.push(`value ${number}`);
    const step = steps[number - leaves.length];
    // Without declarations, nothing is known about the operands that a partial sum is added to or multiplied by.
    if (!declares || type !== 'partial' || step === undefined || !(step.op in local)) continue;
    const meant = await stepOfSums(step, values, all);
    const summed = sumOf(all[number] ?? []);
    if (!meant.every((element, at) => Math.abs(element - (summed[at] ?? Number.NaN)) < 1e-9)) {
      wrong.push(`sum ${number}`);
    }
  }
  return wrong;
}

/** Computes a step on operands that were summed over the ranks first. */
async function stepOfSums(
  step: Step,
  values: readonly Tensor[],
  all: readonly (readonly Float64Array[])[],
): Promise<readonly number[]> {
  const summed = values.map((value, number) => {
    const ranks = all[number] ?? [];
    const [first = new Float64Array(count)] = ranks;
    return fromData(typeOf(value) === 'partial' ? sumOf(ranks) : first, shape, 'f64');
  });
  return Array.from(await noGrad(() => runStep(step, summed)).data(), Number);
}

function sumOf(ranks: readonly Float64Array[]): Float64Array {
  const sum = new Float64Array(count);
  for (const own of ranks) own.forEach((value, at) => (sum[at] = (sum[at] ?? 0) + value));
  return sum;
}

/** Returns deterministic values in [-1, 1) that differ for each seed. */
function elements(seed: number): Float64Array {
  const draw = drawing(seed);
  return Float64Array.from({ length: count }, () => draw(2 ** 24) / 2 ** 23 - 1);
}

function describe({ leaves, steps }: Program): string {
  const given = leaves.map(({ type, trains }) => `${type}${trains ? '' : ' (frozen)'}`);
  const made = steps.map(({ op, reads }) => `${op}(${reads.join(', ')})`);
  return [...given, ...made].map((each, number) => `${number}: ${each}`).join('; ');
}

async function gather(own: Float64Array, group: ProcessGroup): Promise<readonly Float64Array[]> {
  const output = new Float64Array(own.length * group.size);
  await group.allGather(
    { bytes: new Uint8Array(own.slice().buffer), dtype: 'f64' },
    { bytes: new Uint8Array(output.buffer), dtype: 'f64' },
  );
  return Array.from({ length: group.size }, (_, rank) =>
    output.slice(rank * own.length, (rank + 1) * own.length),
  );
}

async function sumOverRanks(value: number, group: ProcessGroup): Promise<number> {
  const cell = Float64Array.of(value);
  await group.allReduce({ bytes: new Uint8Array(cell.buffer), dtype: 'f64' }, 'sum');
  return cell[0] ?? Number.NaN;
}

async function findingsOf(data: AxisTypesTask): Promise<Findings> {
  const [findings, other] = await onRanks(2, (place) => findOnRank(place, data));
  expect(other).toEqual(findings);
  if (findings === undefined) throw new TypeError('rank 0 found nothing');
  return findings;
}

const operations = [...Object.keys(local), ...Object.keys(collectives)];
const seeds = Array.from({ length: 100 }, (_, index) => index + 1);

test('random programs of two ranks that are accepted have the values and gradients that their types say, also with a collective left out or changed', async () => {
  const findings = await findingsOf({ seeds, declares: true });
  expect(findings.wrongValues).toEqual([]);
  expect(findings.wrongGradients).toEqual([]);
  expect(Object.keys(findings.taken).toSorted()).toEqual(operations.toSorted());
  expect(findings.gradients).toBeGreaterThan(80);
  expect(findings.acceptedMutants).toBeGreaterThan(20);
  expect(findings.mutants - findings.acceptedMutants).toBeGreaterThan(20);
});

test('values of which nobody has said anything never make one that is said to be the same on all ranks', async () => {
  const findings = await findingsOf({ seeds: seeds.slice(0, 50), declares: false });
  expect(findings.wrongValues).toEqual([]);
  expect(findings.programs).toBe(50);
});
