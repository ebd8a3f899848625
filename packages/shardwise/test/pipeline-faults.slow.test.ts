import { stagesThatFail } from './faults.ts';

stagesThatFail('threads');
stagesThatFail('tcp');
stagesThatFail('hosted');
