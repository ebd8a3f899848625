import { backendContract } from '@shardwise/testing';
import { cpu } from '@shardwise/backend-cpu';

backendContract({
  name: 'cpu',
  create: () => cpu(),
  bytesInUse: (backend) => backend.usage().bytesInUse,
});
