import { join } from 'node:path';
import { expect, test } from 'vitest';
import { repository } from './support/documents.ts';
import { importGraph } from './support/import-graph.ts';

test.each([
  [
    'collectives/src/index.ts',
    ['@shardwise/core/base', '@shardwise/core/spec', '@shardwise/wasm-assembler'],
  ],
  [
    'backend-cpu/src/wasm.ts',
    ['@shardwise/core/base', '@shardwise/core/spec', '@shardwise/wasm-assembler'],
  ],
  ['backend-webgpu/src/index.ts', ['@shardwise/core/base', '@shardwise/core/spec']],
  ['core/src/extend.ts', []],
  ['core/src/spec/index.ts', []],
  ['core/src/base/index.ts', []],
  [
    'shardwise/src/browser/index.ts',
    [
      '@shardwise/backend-cpu/wasm',
      '@shardwise/backend-webgpu',
      '@shardwise/collectives',
      '@shardwise/core',
      '@shardwise/core/extend',
      '@shardwise/parameter-server',
      '@shardwise/strategies',
      'zod',
    ],
  ],
  ['shardwise/src/together/index.ts', ['@shardwise/core/base', '@shardwise/core/spec', 'zod']],
  ['wasm-assembler/src/index.ts', []],
  ['strategies/src/index.ts', ['@shardwise/core/extend']],
  ['parameter-server/src/index.ts', ['@shardwise/core/extend', '@shardwise/strategies']],
  [
    'models/src/index.ts',
    ['@shardwise/backend-cpu/onnx', '@shardwise/core/extend', '@shardwise/strategies', 'zod'],
  ],
  [
    'planner/src/index.ts',
    ['@shardwise/core/extend', '@shardwise/models', '@shardwise/strategies', 'zod'],
  ],
  ['backend-cpu/src/onnx.ts', ['@shardwise/core/base', '@shardwise/core/spec']],
  [
    'data/src/index.ts',
    [
      '@huggingface/jinja',
      '@huggingface/tokenizers',
      '@shardwise/core/extend',
      'hyparquet',
      'hyparquet-compressors',
      'zod',
    ],
  ],
  ['testing/src/ranks.ts', ['@shardwise/core/spec']],
  [
    'testing/src/index.ts',
    [
      '@shardwise/core/base',
      '@shardwise/core/spec',
      '@shardwise/core',
      '@shardwise/core/extend',
      '@shardwise/strategies',
      'fast-check',
    ],
  ],
])('a browser can load %s: it imports nothing of Node', (entry, outside) => {
  const graph = importGraph(join(repository, 'packages', entry));
  expect([...graph.outside.keys()].toSorted()).toEqual(outside.toSorted());
});
