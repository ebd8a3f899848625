import { wasm } from '@shardwise/backend-cpu/wasm';
import { backendSuite } from '@shardwise/testing';
import { testSuite } from '@shardwise/testing/vitest';

testSuite(
  backendSuite({
    name: 'wasm',
    create: () => wasm({ byteLength: 2 ** 30 }),
    bytesInUse: (backend) => backend.usage().bytesInUse,
  }),
);
