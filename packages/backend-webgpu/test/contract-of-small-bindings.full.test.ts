import { smallBindingsKeepContract } from './device-contract.ts';

smallBindingsKeepContract(3);
