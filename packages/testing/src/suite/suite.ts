/** One promise of an interface, and a test of whether an implementation keeps it. */
export interface SuiteTest {
  /** The groups of the test, outermost first, such as `['2 ranks', 'fsdp']`. */
  readonly groups: readonly string[];
  readonly name: string;
  /** Rejects if the implementation does not keep the promise. */
  readonly run: () => Promise<void | NotConcerned>;
  /** Default: the time limit of the test runner. */
  readonly timeoutMs?: number;
}

/** Says that a promise does not apply to an implementation. */
export interface NotConcerned {
  readonly reason: string;
}

/** The tests of an interface, as data. Any program can run a suite, a web page too. */
export interface Suite {
  readonly name: string;
  readonly tests: readonly SuiteTest[];
}

/** How a test ended. */
export type TestOutcome =
  | { readonly status: 'passed' }
  | { readonly status: 'skipped'; readonly reason: string }
  | { readonly status: 'failed'; readonly error: unknown };

/** Runs the tests of a suite one after another, and calls `onEnd` for each. Resolves to whether none has failed. */
export async function runSuite(
  { tests }: Suite,
  onEnd: (test: SuiteTest, outcome: TestOutcome) => void,
): Promise<boolean> {
  let passes = true;
  for (const test of tests) {
    const outcome = await outcomeOf(test);
    passes &&= outcome.status !== 'failed';
    onEnd(test, outcome);
  }
  return passes;
}

async function outcomeOf({ run }: SuiteTest): Promise<TestOutcome> {
  try {
    const skipped = await run();
    return skipped === undefined ? { status: 'passed' } : { status: 'skipped', ...skipped };
  } catch (error) {
    return { status: 'failed', error };
  }
}
