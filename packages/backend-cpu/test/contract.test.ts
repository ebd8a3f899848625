import { cpu, type CpuBackend } from '@shardwise/backend-cpu';
import { createSharedMemory, memoryLimits } from '@shardwise/wasm-assembler';
import { backendSuite } from '@shardwise/testing';
import { testSuite } from '@shardwise/testing/vitest';
import { describe } from 'vitest';

const gibibyte = 2 ** 30;

function testBackend(name: string, create: () => Promise<CpuBackend>): void {
  testSuite(backendSuite({ name, create, bytesInUse: (backend) => backend.usage().bytesInUse }));
}

testBackend('cpu, addresses of 32 bits', () => cpu({ byteLength: gibibyte }));

describe.runIf(memoryLimits().largestBytes >= 6 * gibibyte)('with addresses of 64 bits', () => {
  const memory = createSharedMemory(6 * gibibyte);
  testBackend('cpu, beyond 4 GiB', () =>
    cpu({ memory, byteOffset: 5 * gibibyte, byteLength: gibibyte }),
  );
});
