import { cpu } from '@shardwise/backend-cpu';
import { interpreter } from '@shardwise/testing';
import { describePrograms } from './golden/describe-programs.ts';

describePrograms('the CPU backend', () => cpu());
describePrograms('the interpreter', interpreter);
