import { cpu } from '@shardwise/backend-cpu';
import { backendSuite } from '@shardwise/testing';
import { testSuite } from '@shardwise/testing/vitest';

// This is what a processor without AVX-512 computes with.
testSuite(
  backendSuite({
    name: 'cpu, by AVX2',
    create: () => cpu({ byteLength: 2 ** 30, instructions: 'AVX2' }),
    bytesInUse: (backend) => backend.usage().bytesInUse,
  }),
);
