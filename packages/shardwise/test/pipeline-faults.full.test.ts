import { stagesThatFail } from './faults.ts';

stagesThatFail('shm');
