import { backendContract, interpreter } from '@shardwise/testing';

backendContract({
  name: 'interpreter',
  create: async () => interpreter(),
  bytesInUse: (backend) => backend.bytesInUse(),
});
