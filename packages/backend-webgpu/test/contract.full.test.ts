import { deviceKeepsContract } from './device-contract.ts';

deviceKeepsContract(3);
