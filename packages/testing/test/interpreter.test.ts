import { backendSuite, interpreter } from '@shardwise/testing';
import { testSuite } from '@shardwise/testing/vitest';

testSuite(
  backendSuite({
    name: 'interpreter',
    create: async () => interpreter(),
    bytesInUse: (backend) => backend.bytesInUse(),
  }),
);
