// What the host calls.
export { skill_v1_call } from "./abi";
