import { testDistributedOps } from './distributed-ops-table.ts';

testDistributedOps(2, 4);
