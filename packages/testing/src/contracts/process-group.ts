import type { RankOutcome } from '../ranks/rank-failure.ts';
import { equal, holds, matches } from '../suite/assertions.ts';
import type { Suite, SuiteTest } from '../suite/suite.ts';
import type { ConformanceCases } from './process-group/conformance-case.ts';
import { contractCases, type ProcessGroupScenario } from './process-group/scenario.ts';
import { type CallOutcome, mismatches, refusals } from './process-group/faults.ts';
import { expectedOf, type RandomCall } from './process-group/random-call.ts';
import { everyCall, randomCalls, randomWorlds } from './process-group/random-calls.ts';

/** What `processGroupSuite` tests. */
export interface ProcessGroupContract {
  readonly name: string;
  /**
   * Makes a new world of `size` ranks, in which each calls runProcessGroupScenario with its group, and returns
   * how each rank ended. Ranks may be threads or processes, because a scenario is plain data.
   */
  readonly run: (size: number, scenario: ProcessGroupScenario) => Promise<readonly RankOutcome[]>;
  /** The sizes of the tested worlds. Default: 1, 2, 3 and 5. */
  readonly sizes?: readonly number[];
  /** The number of random calls for each size. Default: 40, and fewer for more than 3 ranks. */
  readonly randomCalls?: number;
  /** The seed of the random calls. Default: 1. */
  readonly seed?: number;
}

/** The tests of a ProcessGroup. */
export function processGroupSuite(contract: ProcessGroupContract): Suite {
  const sizes = contract.sizes ?? [1, 2, 3, 5];
  const size = sizes.find((count) => count >= 3) ?? Math.max(...sizes);
  return {
    name: `${contract.name} keeps the contract of process groups`,
    tests: [
      ...sizes.flatMap((each) => [
        ...conforms(contract, each, contractCases(each), { kind: 'conformance' }),
        ...agreesWithSpecification(contract, each),
      ]),
      ...(size > 1
        ? [
            agreesInAPart(contract, size),
            ...refusesWhatRanksDoNotAgreeOn(contract, size),
            ...endsByOnePath(contract, size),
          ]
        : []),
    ],
  };
}

/** Makes only the tests of random calls, for groups that treat some memory in a special way. */
export function randomCallsSuite(contract: ProcessGroupContract): Suite {
  return {
    name: `${contract.name} gives random calls of a process group the bits of the specification`,
    tests: (contract.sizes ?? [1, 2, 3, 5]).flatMap((size) =>
      agreesWithSpecification(contract, size),
    ),
  };
}

/**
 * Makes tests of your own cases, for functions that use a ProcessGroup. The ranks must pass the same cases to
 * runProcessGroupScenario.
 */
export function groupCasesSuite(contract: ProcessGroupContract, cases: ConformanceCases): Suite {
  return {
    name: `${contract.name} conforms`,
    tests: (contract.sizes ?? [1, 2, 3]).flatMap((size) =>
      conforms(contract, size, cases, { kind: 'cases' }),
    ),
  };
}

/**
 * Makes tests of random calls on worlds of 1 to 8 ranks. A failing test is reduced to the fewest ranks and calls. The
 * suite makes many groups, so it is for groups that are made quickly.
 */
export function randomWorldsSuite(
  contract: Pick<ProcessGroupContract, 'name' | 'run' | 'seed'> & { readonly numRuns?: number },
): Suite {
  const { run, numRuns = 25, seed = 1 } = contract;
  return {
    name: `${contract.name} gives the bits of the specification`,
    tests: [
      {
        groups: [],
        name: 'for random calls on worlds of random size',
        run: () =>
          randomWorlds({ numRuns, seed }, async ({ size, calls }) => {
            const results = valuesOf(await run(size, { kind: 'random', calls }));
            agree(calls, results.map(arrayOf));
          }),
      },
    ],
  };
}

function onRanks(size: number): readonly string[] {
  return [`${size} ranks`];
}

function conforms(
  { run }: ProcessGroupContract,
  size: number,
  cases: ConformanceCases,
  scenario: ProcessGroupScenario,
): readonly SuiteTest[] {
  let played: Promise<readonly unknown[]> | undefined;
  return Object.entries(cases).map(([name, { expected }]) => ({
    groups: onRanks(size),
    name,
    run: async () => {
      played ??= run(size, scenario).then(valuesOf);
      const answers = await played;
      equal(answers.length, size, 'ranks that answer');
      for (const [rank, answer] of answers.entries()) {
        const about = `the answer of rank ${rank}`;
        holds(isRecord(answer) && Object.hasOwn(answer, name), `${about} is not there`);
        equal(answer[name], expected(rank, size), about);
      }
    },
  }));
}

function agreesWithSpecification(
  contract: ProcessGroupContract,
  size: number,
): readonly SuiteTest[] {
  const parts = {
    'gives the bits of the specification for random calls': randomCalls(
      size,
      contract.randomCalls ?? Math.min(40, Math.ceil(120 / size)),
      contract.seed ?? 1,
    ),
    'takes every dtype in every operation and reduction': everyCall(size),
  };
  let played: Promise<readonly unknown[]> | undefined;
  let start = 0;
  return Object.entries(parts).map(([name, calls]) => {
    const first = start;
    start += calls.length;
    return {
      groups: onRanks(size),
      name,
      run: async () => {
        const scenario = { kind: 'random', calls: Object.values(parts).flat() } as const;
        played ??= contract.run(size, scenario).then(valuesOf);
        const results = (await played).map(arrayOf);
        equal(results.length, size, 'ranks that answer');
        agree(
          calls,
          results.map((outputs) => outputs.slice(first)),
        );
      },
    };
  });
}

function agreesInAPart({ run, seed = 1 }: ProcessGroupContract, size: number): SuiteTest {
  return {
    groups: onRanks(size),
    name: 'a part of the ranks in reverse order gives the bits of the specification',
    run: async () => {
      const members = [size - 1, 0];
      const calls = randomCalls(members.length, 30, seed + 1);
      const results = valuesOf(await run(size, { kind: 'random', calls, members }));
      agree(
        calls,
        members.map((rank) => arrayOf(results[rank])),
      );
    },
  };
}

/**
 * Throws if the results differ from the specification. `results` contains a list for each rank of the group, with a
 * value for each call.
 */
function agree(calls: readonly RandomCall[], results: readonly (readonly unknown[])[]): void {
  for (const [index, call] of calls.entries()) {
    const expected = expectedOf(call, results.length);
    for (const [rank, outputs] of results.entries()) {
      const about = `rank ${rank} of ${results.length}: ${JSON.stringify(call)}`;
      equal(outputs[index], expected[rank], about);
    }
  }
}

function arrayOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null;
}

function refusesWhatRanksDoNotAgreeOn(
  { run }: ProcessGroupContract,
  size: number,
): readonly SuiteTest[] {
  const groups = onRanks(size);
  return [
    ...Object.keys(mismatches).map((name) => ({
      groups,
      name: `ranks that differ in ${name} all reject, naming both ranks`,
      run: async () => {
        for (const outcomes of outcomesOf(await run(size, { kind: 'mismatch', name }))) {
          const [differing, next] = outcomes;
          equal(differing?.code, 'COLLECTIVE_MISMATCH');
          matches(differing?.message, /ranks? \d.*ranks? \d/);
          matches(next?.code, /^COLLECTIVE_(ABORTED|MISMATCH)$/);
          // A rank that only finds a difference must not be named as the cause.
          matches(next?.message, /^(?!.*first failure on rank)/s);
        }
      },
    })),
    {
      groups,
      name: 'wrong arguments are refused before anything is communicated',
      run: async () => {
        const codes = [...Object.values(refusals).map(({ code }) => code), 'fulfilled'];
        for (const outcomes of outcomesOf(await run(size, { kind: 'refusals' }))) {
          equal(
            outcomes.map(({ code }) => code),
            codes,
          );
        }
      },
    },
  ];
}

function endsByOnePath({ run }: ProcessGroupContract, size: number): readonly SuiteTest[] {
  const fault = async (name: string): Promise<readonly (readonly CallOutcome[])[]> =>
    outcomesOf(await run(size, { kind: 'fault', name }));
  const requireTimeout = (outcomes: readonly CallOutcome[]): void =>
    holds(
      outcomes.some(({ code }) => code === 'COLLECTIVE_TIMEOUT'),
      'a rank has a CollectiveTimeoutError',
    );

  const promises: Readonly<Record<string, () => Promise<void>>> = {
    'a timeout names the rank that has not come, to all that waited for it': async () => {
      const [, ...waiting] = await fault('a rank that does not come');
      const outcomes = waiting.flat();
      equal(outcomes.length, size - 1, 'ranks that waited');
      requireTimeout(outcomes);
      for (const { code, message } of outcomes) {
        matches(code, /^COLLECTIVE_(TIMEOUT|ABORTED)$/);
        // A rank whose thread is slow may also be named as late.
        matches(message, /ranks? 0\b.* not arrived/);
      }
    },
    'a receive that times out names its peer': async () => {
      const [, ...waiting] = await fault('a message that does not come');
      for (const { message } of waiting.flat()) matches(message, /rank 0/);
      requireTimeout(waiting.flat());
    },
    'closing with a reason fails what is pending and what comes, on every rank': async () => {
      for (const outcomes of await fault('a rank that closes the group with a reason')) {
        holds(outcomes.length > 0, 'every rank has calls that end');
        for (const { code, message } of outcomes) {
          equal(code, 'COLLECTIVE_ABORTED');
          matches(message, /rank 1 .*the disk is full/);
        }
      }
    },
    'a signal ends the group, and says so everywhere': async () => {
      for (const { code, message } of (await fault('a rank whose signal aborts')).flat()) {
        equal(code, 'COLLECTIVE_ABORTED');
        matches(message, /rank 1 .*timeout/i);
      }
    },
    'a receive from a rank that has left rejects at once': async () => {
      const outcomes = (await fault('a rank that leaves without the others')).flat();
      equal(outcomes.length, size - 1, 'ranks that waited');
      for (const { code, message } of outcomes) {
        equal(code, 'COLLECTIVE_ABORTED');
        matches(message, /rank 1/);
        // Another rank, whose message quotes the first error, must not be named as the first one that failed.
        matches(message, /^(?!.*first failure on (?!rank 1\b))/s);
      }
    },
    'a message of another size than its receiver expects is a mismatch': async () => {
      const [, receiver] = await fault('a message of another size');
      equal(
        receiver?.map(({ code }) => code),
        ['COLLECTIVE_MISMATCH'],
      );
    },
    'an error on one rank ends the calls of the others with its text': async () => {
      const outcomes = await run(size, { kind: 'fault', name: 'a rank that throws' });
      const thrown = outcomes[1];
      matches(thrown?.status === 'rejected' ? thrown.error.message : '', /out of coffee/);
      for (const outcome of outcomes.toSpliced(1, 1)) {
        for (const { code, message } of callOutcomes(outcome)) {
          equal(code, 'COLLECTIVE_ABORTED');
          matches(message, /rank 1 .*out of coffee/);
        }
      }
    },
  };
  return Object.entries(promises).map(([name, check]) => ({
    groups: onRanks(size),
    name,
    run: check,
  }));
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

function callOutcomes(outcome: RankOutcome): readonly CallOutcome[] {
  if (outcome.status === 'rejected') throw outcome.error;
  const { value } = outcome;
  return Array.isArray(value) ? value.filter(isCallOutcome) : [];
}

function isCallOutcome(value: unknown): value is CallOutcome {
  return typeof value === 'object' && value !== null && 'code' in value && 'message' in value;
}
