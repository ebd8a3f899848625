import { cpu } from '@shardwise/backend-cpu';
import { backendSuite } from '@shardwise/testing';
import { testSuite } from '@shardwise/testing/vitest';

// What a processor that knows none of our instructions computes with, or a system that refuses executable pages.
testSuite(
  backendSuite({
    name: 'cpu, by ONNX Runtime',
    create: () => cpu({ byteLength: 2 ** 30, products: 'onnxruntime', loops: 'webassembly' }),
    bytesInUse: (backend) => backend.usage().bytesInUse,
  }),
);
