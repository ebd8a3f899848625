import { cpu } from '@shardwise/backend-cpu';
import { backendSuite } from '@shardwise/testing';
import { testSuite } from '@shardwise/testing/vitest';

// This is what is used when the processor knows none of our instructions, or when the system refuses executable pages.
testSuite(
  backendSuite({
    name: 'cpu, by ONNX Runtime',
    create: () => cpu({ byteLength: 2 ** 30, products: 'onnxruntime', loops: 'webassembly' }),
    bytesInUse: (backend) => backend.usage().bytesInUse,
  }),
);
