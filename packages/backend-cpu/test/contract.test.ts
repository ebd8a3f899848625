import { backendSuite } from '@shardwise/testing';
import { testSuite } from '@shardwise/testing/vitest';
import { cpu } from '@shardwise/backend-cpu';

testSuite(
  backendSuite({
    name: 'cpu',
    create: () => cpu(),
    bytesInUse: (backend) => backend.usage().bytesInUse,
  }),
);
