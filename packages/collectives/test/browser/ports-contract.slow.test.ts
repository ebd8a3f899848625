import { portsContract } from './ports-contract.ts';

portsContract({ workers: [2, 3], oneThread: [1, 2, 5], randomCalls: 150 });
