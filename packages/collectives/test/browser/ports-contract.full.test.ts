import { portsContract } from './ports-contract.ts';

portsContract({ workers: [2], oneThread: [1, 3], randomCalls: 40 });
