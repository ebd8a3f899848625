import { globSync } from 'node:fs';
import { basename } from 'node:path';
import { configDefaults, defineConfig, type TestProjectInlineConfiguration } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** Makes workspace packages resolve to their TypeScript sources, so tests need no build. */
const SOURCE = '@shardwise/source';
const CONDITION = `--conditions=${SOURCE}`;
/** Finds these sources without looking for each of them on the disk. */
const RESOLVER = `--import=${import.meta.dirname}/test/support/resolve-sources.ts`;

/** Where ranks find the sources without their types and compiled: each saves most of a second of processor time. */
const compiled = `${import.meta.dirname}/node_modules/.cache/node`;

const OF_PACKAGES = ['packages/*/test/**/*.test.ts'];
const OF_ALL = ['apps/*/test/**/*.test.ts', 'test/**/*.test.ts'];
/** Files that need a process of their own. */
const ALONE = [
  // It counts turns of the event loop, which threads of earlier files would slow.
  'packages/backend-cpu/test/overlap.test.ts',
  // `explain` lists the sizes that have varied in this process.
  'packages/strategies/test/explain.test.ts',
  // It awaits so much that it takes three times as long in a process that has run other files.
  'apps/docs/test/record-collective.test.ts',
  // It counts the bytes of arrays of the process, of which those of earlier files are freed at any time.
  'packages/models/test/load-dtype.test.ts',
  // They open devices of WebGPU.
  'packages/strategies/test/context-parallel-webgpu.full.test.ts',
  'test/golden-webgpu.full.test.ts',
];
const TESTS = [...OF_PACKAGES, ...OF_ALL];
const FULL = TESTS.map((pattern) => pattern.replace('*.test.ts', '*.full.test.ts'));
const SLOW = TESTS.map((pattern) => pattern.replace('*.test.ts', '*.slow.test.ts'));
/** Full files whose ranks are in the thread of the test, and those that compute with no ranks. */
const FULL_IN_THREAD = globSync(
  [
    'packages/{compat,data,models,parameter-server,serve,strategies}/test/**/*.full.test.ts',
    'packages/backend-cpu/test/contract-{avx2,onnxruntime,wasm}.full.test.ts',
    'packages/shardwise/test/verify-programs.full.test.ts',
    'packages/testing/test/backend-contract.full.test.ts',
    'packages/collectives/test/{algorithms,hosted-contract,loopback-contract}.full.test.ts',
    'test/{golden*,long-memory,random-sizes}.full.test.ts',
  ],
  { cwd: import.meta.dirname },
).filter((path) => !ALONE.includes(path));
/** Full files that start the command, programs or browsers, and nothing that stays in their process. */
const FULL_OF_COMMANDS = globSync(
  [
    'apps/docs/test/*.full.test.ts',
    'packages/shardwise/test/*.full.test.ts',
    'test/{browser,hosts}/*.full.test.ts',
    'packages/testing/test/hosts.full.test.ts',
    'test/{bad-input,command-lines,created-project,example-*,packages,places}.full.test.ts',
    'test/{readme-programs,traps-of-scripts}.full.test.ts',
  ],
  {
    cwd: import.meta.dirname,
    exclude: [
      'packages/shardwise/test/{device,lost-device,process-ends,verify-programs}.full.test.ts',
    ],
  },
);

/**
 * One kind of tests. The quick files of packages share a process, so do the other quick files, and the full files that
 * compute in their thread or start commands, because loading the sources into a new one takes longer than most of them
 * run. The other long files are isolated: they open devices, or start ranks.
 */
function tests(
  name: string,
  include: readonly string[],
  others: readonly string[],
  isolate: boolean,
  more: TestProjectInlineConfiguration['test'] = {},
): TestProjectInlineConfiguration {
  const exclude = [...configDefaults.exclude, '**/dist/**', ...others];
  return { extends: true, test: { name, include: [...include], exclude, isolate, ...more } };
}

/** The name of the project whose files take longest. */
const COMMANDS = 'full with commands';
/**
 * Commands and browsers wait for each other, for signs of life and for files. Meanwhile, the two cores have the work of a
 * third file. These files run before the others, which compute all the time.
 */
const WAITING = { maxWorkers: 3, sequence: { groupOrder: 0 } };
/** What these tests start are the built packages (test/support/shardwise-command.ts). */
const OF_BUILDS = { globalSetup: ['test/bundle-packages.ts'], env: { SHARDWISE_BUILT: '1' } };

/**
 * The files that took longest when all were measured, longest first. Those that need the built site, or the installed
 * packages, follow when an earlier one has made them.
 */
const LONGEST = (
  'packages site example-files example-gpt gpt-faults hosts trainings created-project examples ' +
  'readme-programs survive serve-replicas faults pages-on-phones example-lora elastic places ' +
  'recordings cli kills live'
).split(' ');

/**
 * Files that take minutes begin first, so that no worker is left with one when the others have ended. Those that share a
 * process follow one after another: a worker is kept if the next file is of the same kind.
 */
class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const rank = ({ moduleId, project: { name, config } }: TestSpecification): number => {
      if (name !== COMMANDS) return LONGEST.length + (config.isolate ? 1 : 2);
      const at = LONGEST.indexOf(basename(moduleId, '.full.test.ts'));
      return at === -1 ? LONGEST.length : at;
    };
    return sorted.toSorted((a, b) => rank(a) - rank(b));
  }
}

// `npm test` runs the quick tests, `npm run test:full` those of *.full.test.ts, too, `npm run test:slow` only the
// slow ones, and SHARDWISE_SLOW=1 adds the slow ones to whatever is run.
export default defineConfig(({ mode }) => {
  const onlySlow = mode === 'slow';
  const withFull = mode === 'full' || process.env['SHARDWISE_SLOW'] === '1';
  const withSlow = onlySlow || process.env['SHARDWISE_SLOW'] === '1';
  return {
    resolve: { conditions: [SOURCE, 'module', 'node', 'development|production'] },
    ssr: {
      resolve: {
        conditions: [SOURCE, 'module', 'node', 'development|production'],
        externalConditions: [SOURCE, 'node', 'module-sync'],
      },
    },
    test: {
      projects: [
        ...(onlySlow ? [] : [tests('packages', OF_PACKAGES, [...ALONE, ...FULL, ...SLOW], false)]),
        ...(onlySlow ? [] : [tests('all', OF_ALL, [...ALONE, ...FULL, ...SLOW], false)]),
        ...(onlySlow ? [] : [tests('alone', ALONE, [...FULL, ...SLOW], true)]),
        ...(withFull && !onlySlow
          ? [tests(COMMANDS, FULL_OF_COMMANDS, SLOW, false, { ...OF_BUILDS, ...WAITING })]
          : []),
        ...(withFull && !onlySlow
          ? [tests('full', FULL, [...FULL_IN_THREAD, ...FULL_OF_COMMANDS, ...SLOW], true)]
          : []),
        ...(withFull && !onlySlow ? [tests('full in thread', FULL_IN_THREAD, SLOW, false)] : []),
        ...(withSlow ? [tests('slow', SLOW, [], true, OF_BUILDS)] : []),
      ],
      passWithNoTests: onlySlow,
      globalSetup: ['test/temporary-folder.ts'],
      setupFiles: ['test/support/import-silently.ts'],
      sequence: { sequencer: LongestFirst, groupOrder: 1 },
      pool: 'forks',
      maxWorkers: 2,
      // A busy machine takes many times as long as an idle one.
      testTimeout: 300_000,
      hookTimeout: 300_000,
      expect: { poll: { timeout: 30_000 } },
      // Worker threads and forks inherit execArgv, spawned processes inherit NODE_OPTIONS.
      execArgv: [CONDITION, RESOLVER],
      env: { NODE_OPTIONS: `${CONDITION} ${RESOLVER}`, NODE_COMPILE_CACHE: compiled },
      // Node runs the sources itself, compiled ones from the cache: no test needs what Vite would do to them.
      experimental: { viteModuleRunner: false },
    },
  };
});
