import { resolveSourcesFirst } from './resolve-sources.ts';

// Vitest's hooks send a message to its main process at each import, so that it knows which tests to run again when a file
// changes. Isolated files of tests make a thousand imports each, and a run of a plan a few, as code that few programs need
// is imported when it is needed. The messages take a fifth of the time of many tests.
if (process.env['VITEST_MODE'] !== 'WATCH') resolveSourcesFirst();
