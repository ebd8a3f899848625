import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { RankOutcome } from '../ranks/rank-failure.ts';
import type { ConformanceCases } from './process-group/conformance-case.ts';
import { contractCases } from './process-group/contract-cases.ts';
import { mismatches, refusals, type CallOutcome } from './process-group/faults.ts';
import { expectedOf, type RandomCall } from './process-group/random-call.ts';
import { everyCall, randomCall, randomCalls } from './process-group/random-calls.ts';
import type { ProcessGroupScenario } from './process-group/scenario.ts';

export interface ProcessGroupContract {
  readonly name: string;
  /**
   * Makes a new world of `size` ranks, has each call runProcessGroupScenario with its group, and
   * tells how each rank ended. The ranks may be threads or processes: a scenario is plain data.
   */
  readonly run: (size: number, scenario: ProcessGroupScenario) => Promise<readonly RankOutcome[]>;
  /** Default: 1, 2, 3 and 5. */
  readonly sizes?: readonly number[];
  /** Random calls for each size. Default: 40, and fewer for more than 3 ranks. */
  readonly randomCalls?: number;
  /** Of the random calls. Default: 1. */
  readonly seed?: number;
}

/** The tests that a ProcessGroup must pass, for vitest. */
export function processGroupContract(contract: ProcessGroupContract): void {
  const sizes = contract.sizes ?? [1, 2, 3, 5];
  describe(`process group contract: ${contract.name}`, () => {
    describe.each(sizes)('%i ranks', (size) => {
      conforms(contract, size, contractCases(size), { kind: 'conformance' });
      agreesWithSpecification(contract, size);
    });
    const size = sizes.find((count) => count >= 3) ?? Math.max(...sizes);
    if (size > 1) {
      agreesInAPart(contract, size);
      refusesWhatRanksDoNotAgreeOn(contract, size);
      endsByOnePath(contract, size);
    }
  });
}

/** Only the random calls of the contract: for groups that treat some memory in their own way. */
export function processGroupRandomCalls(contract: ProcessGroupContract): void {
  describe(`process group, random calls: ${contract.name}`, () => {
    for (const size of contract.sizes ?? [1, 2, 3, 5]) agreesWithSpecification(contract, size);
  });
}

/**
 * Cases of one's own, for functions over a ProcessGroup. The ranks must pass the same cases to
 * runProcessGroupScenario.
 */
export function processGroupCases(contract: ProcessGroupContract, cases: ConformanceCases): void {
  describe(`process group: ${contract.name}`, () => {
    describe.each(contract.sizes ?? [1, 2, 3])('%i ranks', (size) => {
      conforms(contract, size, cases, { kind: 'cases' });
    });
  });
}

/**
 * Random calls on worlds of random size, 1 to 8; what fails is shrunk to the fewest ranks and calls.
 * For groups of which many are made in a second.
 */
export function processGroupProperties(
  contract: Pick<ProcessGroupContract, 'name' | 'run' | 'seed'> & { readonly numRuns?: number },
): void {
  it(`process group properties: ${contract.name}`, async () => {
    const world = fc
      .integer({ min: 1, max: 8 })
      .chain((size) =>
        fc
          .array(randomCall(size), { minLength: 1, maxLength: 4 })
          .map((calls) => ({ size, calls })),
      );
    const property = fc.asyncProperty(world, async ({ size, calls }) => {
      const results = valuesOf(await contract.run(size, { kind: 'random', calls }));
      agree(calls, results.map(arrayOf));
    });
    await fc.assert(property, { numRuns: contract.numRuns ?? 25, seed: contract.seed ?? 1 });
  });
}

function conforms(
  { run }: ProcessGroupContract,
  size: number,
  cases: ConformanceCases,
  scenario: ProcessGroupScenario,
): void {
  let played: Promise<readonly unknown[]> | undefined;
  it.each(Object.keys(cases))('%s', async (name) => {
    played ??= run(size, scenario).then(valuesOf);
    const answers = await played;
    expect(answers).toHaveLength(size);
    for (const [rank, answer] of answers.entries()) {
      expect(answer).toHaveProperty([name], cases[name]?.expected(rank, size));
    }
  });
}

function agreesWithSpecification(contract: ProcessGroupContract, size: number): void {
  const parts = {
    [`gives the bits of the specification for random calls on ${size} ranks`]: randomCalls(
      size,
      contract.randomCalls ?? Math.min(40, Math.ceil(120 / size)),
      contract.seed ?? 1,
    ),
    [`takes every dtype in every operation and reduction on ${size} ranks`]: everyCall(size),
  };
  let played: Promise<readonly unknown[]> | undefined;
  let start = 0;
  for (const [name, calls] of Object.entries(parts)) {
    const first = start;
    start += calls.length;
    it(name, async () => {
      const scenario = { kind: 'random', calls: Object.values(parts).flat() } as const;
      played ??= contract.run(size, scenario).then(valuesOf);
      const results = (await played).map(arrayOf);
      expect(results).toHaveLength(size);
      agree(
        calls,
        results.map((outputs) => outputs.slice(first)),
      );
    });
  }
}

function agreesInAPart({ run, seed = 1 }: ProcessGroupContract, size: number): void {
  it('a part of the ranks in reverse order gives the bits of the specification', async () => {
    const members = [size - 1, 0];
    const calls = randomCalls(members.length, 30, seed + 1);
    const results = valuesOf(await run(size, { kind: 'random', calls, members }));
    agree(
      calls,
      members.map((rank) => arrayOf(results[rank])),
    );
  });
}

/** `results`: of each rank of the group, of each call. */
function agree(calls: readonly RandomCall[], results: readonly (readonly unknown[])[]): void {
  for (const [index, call] of calls.entries()) {
    const expected = expectedOf(call, results.length);
    for (const [rank, outputs] of results.entries()) {
      const output = outputs[index];
      const about = `rank ${rank} of ${results.length}: ${JSON.stringify(call)}`;
      // Comparing bytes one by one takes long where there are many.
      if (!isSame(output, expected[rank])) expect(output, about).toEqual(expected[rank]);
    }
  }
}

function arrayOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

function refusesWhatRanksDoNotAgreeOn({ run }: ProcessGroupContract, size: number): void {
  it.each(Object.keys(mismatches))(
    'ranks that differ in %s all reject, naming both ranks',
    async (name) => {
      for (const outcomes of outcomesOf(await run(size, { kind: 'mismatch', name }))) {
        const [differing, next] = outcomes;
        expect(differing?.code).toBe('COLLECTIVE_MISMATCH');
        expect(differing?.message).toMatch(/ranks? \d.*ranks? \d/);
        expect(next?.code).toMatch(/^COLLECTIVE_(ABORTED|MISMATCH)$/);
        // A rank that finds a difference is not its cause.
        expect(next?.message).not.toMatch(/first failure on rank/);
      }
    },
  );

  it('wrong arguments are refused before anything is communicated', async () => {
    const codes = [...Object.values(refusals).map(({ code }) => code), 'fulfilled'];
    for (const outcomes of outcomesOf(await run(size, { kind: 'refusals' }))) {
      expect(outcomes.map(({ code }) => code)).toEqual(codes);
    }
  });
}

function endsByOnePath({ run }: ProcessGroupContract, size: number): void {
  const fault = async (name: string): Promise<readonly (readonly CallOutcome[])[]> =>
    outcomesOf(await run(size, { kind: 'fault', name }));

  it('a timeout names the rank that has not come, to all that waited for it', async () => {
    const [, ...waiting] = await fault('a rank that does not come');
    const outcomes = waiting.flat();
    expect(outcomes).toHaveLength(size - 1);
    expect(outcomes.map(({ code }) => code)).toContain('COLLECTIVE_TIMEOUT');
    for (const { code, message } of outcomes) {
      expect(code).toMatch(/^COLLECTIVE_(TIMEOUT|ABORTED)$/);
      // A rank whose thread is slow may be late as well.
      expect(message).toMatch(/ranks? 0\b.* not arrived/);
    }
  });

  it('a receive that times out names its peer', async () => {
    const [, ...waiting] = await fault('a message that does not come');
    for (const { message } of waiting.flat()) expect(message).toContain('rank 0');
    expect(waiting.flat().map(({ code }) => code)).toContain('COLLECTIVE_TIMEOUT');
  });

  it('closing with a reason fails what is pending and what comes, on every rank', async () => {
    for (const outcomes of await fault('a rank that closes the group with a reason')) {
      expect(outcomes.length).toBeGreaterThan(0);
      for (const { code, message } of outcomes) {
        expect(code).toBe('COLLECTIVE_ABORTED');
        expect(message).toMatch(/rank 1 .*the disk is full/);
      }
    }
  });

  it('a signal ends the group, and says so everywhere', async () => {
    for (const { code, message } of (await fault('a rank whose signal aborts')).flat()) {
      expect(code).toBe('COLLECTIVE_ABORTED');
      expect(message).toMatch(/rank 1 .*timeout/i);
    }
  });

  it('a receive from a rank that has left rejects at once', async () => {
    const outcomes = (await fault('a rank that leaves without the others')).flat();
    expect(outcomes).toHaveLength(size - 1);
    for (const { code, message } of outcomes) {
      expect(code).toBe('COLLECTIVE_ABORTED');
      expect(message).toContain('rank 1');
      // Not the one that found it, in whose message it is quoted.
      expect(message).not.toMatch(/first failure on (?!rank 1\b)/);
    }
  });

  it('a message of another size than its receiver expects is a mismatch', async () => {
    const [, receiver] = await fault('a message of another size');
    expect(receiver?.map(({ code }) => code)).toEqual(['COLLECTIVE_MISMATCH']);
  });

  it('an error on one rank ends the calls of the others with its text', async () => {
    const outcomes = await run(size, { kind: 'fault', name: 'a rank that throws' });
    const thrown = outcomes[1];
    expect(thrown?.status === 'rejected' ? thrown.error.message : '').toContain('out of coffee');
    for (const outcome of outcomes.toSpliced(1, 1)) {
      for (const { code, message } of callOutcomes(outcome)) {
        expect(code).toBe('COLLECTIVE_ABORTED');
        expect(message).toMatch(/rank 1 .*out of coffee/);
      }
    }
  });
}

function valuesOf(outcomes: readonly RankOutcome[]): readonly unknown[] {
  return outcomes.map((outcome) => {
    if (outcome.status === 'rejected') throw outcome.error;
    return outcome.value;
  });
}

function outcomesOf(outcomes: readonly RankOutcome[]): readonly (readonly CallOutcome[])[] {
  return outcomes.map(callOutcomes);
}

function isSame(output: unknown, expected: Uint8Array | undefined): boolean {
  if (expected === undefined) return output === undefined;
  return output instanceof Uint8Array && Buffer.compare(output, expected) === 0;
}

function callOutcomes(outcome: RankOutcome): readonly CallOutcome[] {
  if (outcome.status === 'rejected') throw outcome.error;
  const { value } = outcome;
  return Array.isArray(value) ? value.filter(isCallOutcome) : [];
}

function isCallOutcome(value: unknown): value is CallOutcome {
  return typeof value === 'object' && value !== null && 'code' in value && 'message' in value;
}
