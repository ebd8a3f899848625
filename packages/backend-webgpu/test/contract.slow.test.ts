import { deviceKeepsContract, smallBindingsKeepContract } from './device-contract.ts';

deviceKeepsContract(1);
smallBindingsKeepContract(1);
