import { cpu } from '@shardwise/backend-cpu';
import { createSharedMemory, memoryLimits } from '@shardwise/wasm-assembler';
import { backendSuite } from '@shardwise/testing';
import { testSuite } from '@shardwise/testing/vitest';
import { describe } from 'vitest';

const gibibyte = 2 ** 30;

describe.runIf(memoryLimits().largestBytes >= 6 * gibibyte)('with addresses of 64 bits', () => {
  const memory = createSharedMemory(6 * gibibyte);
  testSuite(
    backendSuite({
      name: 'cpu, beyond 4 GiB',
      create: () => cpu({ memory, byteOffset: 5 * gibibyte, byteLength: gibibyte }),
      bytesInUse: (backend) => backend.usage().bytesInUse,
    }),
  );
});
