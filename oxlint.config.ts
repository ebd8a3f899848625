import { defineConfig } from 'oxlint';
import { roomRules } from './tools/architecture/room-rules.ts';

/** Which entry points of the workspace each package's sources may import, and nothing else. */
const ARROWS: Record<string, readonly string[]> = {
  core: [],
  'wasm-assembler': [],
  collectives: ['@shardwise/core/spec', '@shardwise/core/base', '@shardwise/wasm-assembler'],
  strategies: ['@shardwise/core/extend'],
  'parameter-server': [
    '@shardwise/core/extend',
    '@shardwise/strategies',
    '@shardwise/collectives/node',
  ],
  data: ['@shardwise/core/extend', '@shardwise/core/node'],
  models: [
    '@shardwise/core/extend',
    '@shardwise/core/node',
    '@shardwise/strategies',
    '@shardwise/backend-cpu/onnx',
  ],
  serve: ['@shardwise/core/extend', '@shardwise/data', '@shardwise/models'],
  planner: ['@shardwise/core/extend', '@shardwise/strategies', '@shardwise/models'],
  'backend-cpu': ['@shardwise/core/spec', '@shardwise/core/base', '@shardwise/wasm-assembler'],
  'backend-webgpu': ['@shardwise/core/spec', '@shardwise/core/base'],
  testing: [
    '@shardwise/core',
    '@shardwise/core/extend',
    '@shardwise/core/spec',
    '@shardwise/core/base',
    '@shardwise/core/node',
    '@shardwise/collectives',
    '@shardwise/strategies',
  ],
  'create-shardwise': [],
  // An adapter has no door of its own into the library: it uses what scripts and authors use.
  compat: ['shardwise', '@shardwise/core/extend', '@shardwise/core/node'],
  shardwise: [
    '@shardwise/core',
    '@shardwise/core/extend',
    '@shardwise/core/spec',
    '@shardwise/core/base',
    '@shardwise/core/node',
    '@shardwise/collectives',
    '@shardwise/collectives/node',
    '@shardwise/strategies',
    '@shardwise/data',
    '@shardwise/data/node',
    '@shardwise/models',
    '@shardwise/models/node',
    '@shardwise/parameter-server',
    '@shardwise/parameter-server/node',
    '@shardwise/planner',
    '@shardwise/planner/node',
    '@shardwise/serve',
    '@shardwise/serve/node',
    '@shardwise/backend-cpu',
    '@shardwise/backend-cpu/wasm',
    '@shardwise/backend-webgpu',
  ],
};
const names = Object.keys(ARROWS).join('|');

type Pattern = { message: string } & ({ regex: string } | { group: string[] });

/** Rules about imports that hold in every file of the repository. */
const everywhere: Pattern[] = [
  {
    group: [
      '@shardwise/*/**',
      'shardwise/**',
      '!@shardwise/core/extend',
      '!@shardwise/core/spec',
      '!@shardwise/core/base',
      '!@shardwise/backend-cpu/wasm',
      '!@shardwise/backend-cpu/onnx',
      '!@shardwise/testing/hosts',
      '!@shardwise/testing/node',
      '!@shardwise/testing/ranks',
      '!@shardwise/testing/vitest',
      '!@shardwise/core/node',
      '!@shardwise/collectives/node',
      '!@shardwise/parameter-server/node',
      '!@shardwise/data/node',
      '!@shardwise/models/node',
      '!@shardwise/serve/node',
      '!@shardwise/planner/node',
      '!@shardwise/*/package.json',
      '!shardwise/browser',
      '!shardwise/together',
      '!shardwise/package.json',
    ],
    message: 'Import packages through their entry points only.',
  },
  {
    regex: `^(\\.\\./)+(packages/)?(${names})/(src|dist|test)/`,
    message: 'Import another package by its name, not by a relative path.',
  },
];

/** Rules for packages/<name>/src, where nothing may reach outside its own src folder. */
const sources: Pattern[] = [
  ...everywhere,
  {
    regex: '^\\.\\.?/((\\.\\./)*)index\\.(ts|js)$',
    message: 'Import the module that defines it, not the package barrel.',
  },
  {
    regex: '^\\.\\.?/(.*/)?(src|dist|examples|bench|tools|node_modules)/',
    message: 'A package source may not import from outside its src folder.',
  },
];

function restrict(patterns: Pattern[]): ['error', { patterns: Pattern[] }] {
  return ['error', { patterns }];
}

function arrowRule(name: string, allowed: readonly string[]): Pattern {
  return {
    regex: `^(?!(${allowed.join('|')})$)((create-)?shardwise|@shardwise)(/|$)`,
    message: `packages/${name} may import only: ${allowed.join(', ') || 'no other package'}.`,
  };
}

export default defineConfig({
  plugins: ['typescript', 'unicorn', 'oxc', 'import', 'promise', 'node'],
  categories: { correctness: 'error', suspicious: 'error' },
  options: { typeAware: true },
  ignorePatterns: ['**/dist/**', '**/fixtures/**', 'runs/**', '.vitest/**'],
  rules: {
    'typescript/no-floating-promises': 'error',
    'typescript/no-misused-promises': 'error',
    'typescript/await-thenable': 'error',
    'typescript/no-explicit-any': 'error',
    'typescript/consistent-type-imports': 'error',
    // Of types, too: a file that can be read without those that use it.
    'import/no-cycle': ['error', { ignoreTypes: false }],
    'no-unused-vars': ['error', { argsIgnorePattern: '^_', varsIgnorePattern: '^_' }],
    'max-lines': ['error', { max: 400, skipBlankLines: true, skipComments: true }],
    'no-restricted-imports': restrict(everywhere),

    // Suspicious-category rules that argue with this codebase's idiom, not with its bugs.
    'unicorn/require-module-specifiers': 'off',
    'typescript/no-generated-empty-object-type': 'off',
    'typescript/no-unsafe-type-assertion': 'off',
    'unicorn/require-post-message-target-origin': 'off', // threads have no origin
    'no-shadow': 'off',
    'no-underscore-dangle': 'off',
    'no-await-in-loop': 'off',
    'import/no-unassigned-import': 'off',
    'unicorn/no-array-sort': 'off',
    'unicorn/no-array-reverse': 'off',
    'unicorn/consistent-function-scoping': 'off',
  },
  overrides: [
    ...Object.entries(ARROWS).map(([name, allowed]) => ({
      files: [`packages/${name}/src/**/*.ts`],
      rules: { 'no-restricted-imports': restrict([...sources, arrowRule(name, allowed)]) },
    })),
    ...Object.entries(ARROWS).flatMap(([name, allowed]) =>
      roomRules(name).map(({ files, pattern }) => ({
        files,
        rules: {
          'no-restricted-imports': restrict([...sources, arrowRule(name, allowed), pattern]),
        },
      })),
    ),
    {
      // After the rule of the room, which this one replaces.
      files: ['packages/core/src/spec/**/*.ts'],
      rules: {
        'no-restricted-imports': restrict([
          ...sources,
          {
            regex: '^[^.]|^\\.\\./',
            message: 'core/src/spec imports nothing outside its own folder.',
          },
        ]),
      },
    },
    {
      // node:test awaits what its functions return.
      files: ['packages/create-shardwise/templates/*/test/**/*.ts'],
      rules: { 'typescript/no-floating-promises': 'off' },
    },
    {
      files: ['**/*.test.ts', '**/test/**/*.ts'],
      rules: { 'max-lines': 'off' },
    },
  ],
});
