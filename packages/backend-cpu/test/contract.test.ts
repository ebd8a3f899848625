import { cpu } from '@shardwise/backend-cpu';
import { backendSuite } from '@shardwise/testing';
import { testSuite } from '@shardwise/testing/vitest';

// The full tests have addresses of 64 bits, and other engines.
testSuite(
  backendSuite({
    name: 'cpu, addresses of 32 bits',
    create: () => cpu({ byteLength: 2 ** 30 }),
    bytesInUse: (backend) => backend.usage().bytesInUse,
  }),
);
